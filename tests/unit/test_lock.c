/* SPDX-License-Identifier: MIT
 *
 * sync/lock.h, among threads and among members. Members of their own processes, that are killed, are in
 * tests/processes/. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sync/lock.h"

enum { THREADS = 4, TURNS = 20000, HANGS_S = 30 };

struct scene {
    struct lock lock;
    uint64_t count;
};

/* Of memory that one process has to itself. */
static const struct membership alone = {.id = MEMBERSHIP_ONLY, .fd = -1};

static uint64_t word_of(const struct scene *scene)
{
    return __atomic_load_n(&scene->lock.word, __ATOMIC_RELAXED);
}

/* Whoever sees another one here, or loses a count, was let in beside it. */
static void *take_turns(void *argument)
{
    struct scene *scene = argument;
    for (int i = 0; i < TURNS; i++) {
        (void)lock_acquire(&scene->lock, &alone);
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
    assert_false(lock_acquire(&scene.lock, &alone)); // nobody died with it
    assert_int_equal(word_of(&scene), MEMBERSHIP_ONLY);
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
    (void)lock_acquire(&scene->lock, &alone);
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
    (void)lock_acquire(&scene.lock, &alone);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_one_turn, &scene), 0);
    }
    while ((word_of(&scene) & LOCK_AWAITED) == 0) {
        (void)sched_yield();
    }
    lock_release(&scene.lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(scene.count, THREADS);
}

/* ---- among members ---- */

/* One more opening of a memory file. */
static void join(struct membership *members, int fd)
{
    bool is_alone;
    assert_true(membership_open(members, fd, NULL));
    membership_fork_lock();
    assert_true(membership_begin(members, &is_alone));
    assert_true(membership_join(members));
    membership_fork_unlock();
}

static void die(struct membership *members)
{
    bool is_alone;
    membership_fork_lock();
    assert_true(membership_end(members, &is_alone));
    membership_close(members);
    membership_fork_unlock();
}

static void test_the_heir_of_a_dead_member_is_told_once(void **state)
{
    (void)state;
    struct scene scene = {0};
    struct membership dead, heir;
    int fd = memfd_create("test", MFD_CLOEXEC);
    join(&dead, fd);
    join(&heir, fd);
    assert_false(lock_acquire(&scene.lock, &dead));
    die(&dead);
    assert_true(lock_acquire(&scene.lock, &heir));
    lock_release(&scene.lock);
    assert_false(lock_acquire(&scene.lock, &heir));
    lock_release(&scene.lock);
    die(&heir);
    (void)close(fd);
}

struct guest {
    struct scene scene;
    struct membership members;
    bool is_heir;
};

static void *come_in(void *argument)
{
    struct guest *guest = argument;
    guest->is_heir = lock_acquire(&guest->scene.lock, &guest->members);
    lock_release(&guest->scene.lock);
    return NULL;
}

static void test_a_member_that_is_alive_keeps_its_lock(void **state)
{
    (void)state;
    struct guest guest = {.is_heir = true};
    struct membership holder;
    pthread_t thread;
    int fd = memfd_create("test", MFD_CLOEXEC);
    join(&holder, fd);
    join(&guest.members, fd);
    assert_false(lock_acquire(&guest.scene.lock, &holder));
    assert_int_equal(pthread_create(&thread, NULL, come_in, &guest), 0);
    while ((word_of(&guest.scene) & LOCK_AWAITED) == 0) {
        (void)sched_yield();
    }
    for (int i = 0; i < TURNS; i++) { // it asks in vain
        assert_int_equal(word_of(&guest.scene), holder.id | LOCK_AWAITED);
        (void)sched_yield();
    }
    lock_release(&guest.scene.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(guest.is_heir);
    die(&holder);
    die(&guest.members);
    (void)close(fd);
}

static void test_a_word_that_is_no_members_has_an_heir(void **state)
{
    (void)state;
    static const uint64_t WORDS[] = {2, MEMBERSHIP_ID_MIN - 2, MEMBERSHIP_ID_MAX + 2,
                                     UINT64_MAX - 1};
    struct membership heir;
    int fd = memfd_create("test", MFD_CLOEXEC);
    join(&heir, fd);
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        struct scene scene = {.lock = {WORDS[i]}};
        assert_true(lock_acquire(&scene.lock, &heir));
        lock_release(&scene.lock);
        assert_int_equal(word_of(&scene), LOCK_OPEN);
    }
    die(&heir);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroes_are_an_open_lock),
        cmocka_unit_test(test_one_is_in_at_a_time),
        cmocka_unit_test(test_all_who_sleep_are_woken_in_turn),
        cmocka_unit_test(test_the_heir_of_a_dead_member_is_told_once),
        cmocka_unit_test(test_a_member_that_is_alive_keeps_its_lock),
        cmocka_unit_test(test_a_word_that_is_no_members_has_an_heir),
    };
    (void)alarm(HANGS_S); // that somebody sleeps for ever
    return cmocka_run_group_tests(tests, NULL, NULL);
}
