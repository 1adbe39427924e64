/* SPDX-License-Identifier: MIT
 *
 * sync/lock.h among threads. What it is among processes is mutex.h's: processes.locks and the killed ones. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "sync/lock.h"

enum { THREADS = 4, TURNS = 20000, HANGS_S = 30 };

struct scene {
    struct lock lock;
    uint64_t count;
};

static uint32_t word_of(const struct scene *scene)
{
    return __atomic_load_n(&scene->lock.word, __ATOMIC_RELAXED);
}

/* Whoever sees another one here, or loses a count, was let in beside it. */
static void *take_turns(void *argument)
{
    struct scene *scene = argument;
    for (int i = 0; i < TURNS; i++) {
        (void)lock_acquire(&scene->lock);
        uint64_t before = scene->count;
        if (i % 64 == 0) {
            (void)sched_yield(); // so that others come and have to sleep
        }
        scene->count = before + 1;
        lock_release(&scene->lock);
    }
    return NULL;
}

static void test_zeroes_are_an_open_lock(void **state)
{
    (void)state;
    struct scene scene = {0};
    assert_false(lock_acquire(&scene.lock)); // nobody died with it
    assert_int_equal(word_of(&scene), LOCK_HELD);
    lock_release(&scene.lock);
    assert_int_equal(word_of(&scene), LOCK_OPEN);
}

static void test_one_is_in_at_a_time(void **state)
{
    (void)state;
    struct scene scene = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &scene), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(scene.count, THREADS * TURNS);
    assert_int_equal(word_of(&scene), LOCK_OPEN);
}

static void *take_one_turn(void *argument)
{
    struct scene *scene = argument;
    (void)lock_acquire(&scene->lock);
    scene->count++;
    lock_release(&scene->lock);
    return NULL;
}

/* Each one that is woken wakes the next, though nobody else has said that he sleeps. */
static void test_all_who_sleep_are_woken_in_turn(void **state)
{
    (void)state;
    struct scene scene = {0};
    pthread_t threads[THREADS];
    (void)lock_acquire(&scene.lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_one_turn, &scene), 0);
    }
    while (word_of(&scene) != LOCK_AWAITED) {
        (void)sched_yield();
    }
    lock_release(&scene.lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(scene.count, THREADS);
}

static void test_the_shared_kind_is_a_robust_mutex(void **state)
{
    (void)state;
    struct scene scene = {0};
    lock_init_shared(&scene.lock);
    assert_false(lock_acquire(&scene.lock));
    assert_int_equal(pthread_mutex_trylock(&scene.lock.mutex.mutex), EBUSY);
    lock_release(&scene.lock);
    assert_false(lock_acquire(&scene.lock));
    lock_release(&scene.lock);
}

/* A thread may die with it as a process may. */
static void *die_with_it(void *argument)
{
    struct scene *scene = argument;
    (void)lock_acquire(&scene->lock);
    return NULL;
}

static void test_the_heir_of_a_shared_one_is_told(void **state)
{
    (void)state;
    struct scene scene = {0};
    pthread_t thread;
    lock_init_shared(&scene.lock);
    assert_int_equal(pthread_create(&thread, NULL, die_with_it, &scene), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(lock_acquire(&scene.lock));
    lock_release(&scene.lock);
    assert_false(lock_acquire(&scene.lock));
    lock_release(&scene.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroes_are_an_open_lock),
        cmocka_unit_test(test_one_is_in_at_a_time),
        cmocka_unit_test(test_all_who_sleep_are_woken_in_turn),
        cmocka_unit_test(test_the_shared_kind_is_a_robust_mutex),
        cmocka_unit_test(test_the_heir_of_a_shared_one_is_told),
    };
    (void)alarm(HANGS_S); // that somebody sleeps for ever
    return cmocka_run_group_tests(tests, NULL, NULL);
}
