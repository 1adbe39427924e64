/* SPDX-License-Identifier: MIT
 *
 * The clock, against the kernel's. A thread may be interrupted between any two readings, so every
 * claim is about readings that stand between two others, which holds however long that took. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "store/table/store_clock.h"
#include "weir/clock.h"

enum { THREADS = 3, READINGS = 200000, NEW_THREADS = 20, FIRST_READINGS = 50000 };

#define RUN_NS UINT64_C(300000000) // enough for several anchors, and for the rate to be measured

static uint64_t kernel_now_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_BOOTTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void test_never_runs_backwards_within_a_thread(void **state)
{
    (void)state;
    uint64_t deadline_ns = kernel_now_ns() + RUN_NS;
    uint64_t last_ns = weir_clock_now_ns();
    while (last_ns < deadline_ns) {
        uint64_t now_ns = weir_clock_now_ns();
        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

static void test_is_the_kernels_clock_within_the_stated_error(void **state)
{
    (void)state;
    uint64_t deadline_ns = kernel_now_ns() + RUN_NS;
    uint64_t before_ns = kernel_now_ns();
    while (before_ns < deadline_ns) {
        uint64_t now_ns = weir_clock_now_ns();
        uint64_t after_ns = kernel_now_ns();
        assert_true(now_ns + WEIR_CLOCK_ERROR_NS_MAX >= before_ns);
        assert_true(now_ns <= after_ns + WEIR_CLOCK_ERROR_NS_MAX);
        before_ns = after_ns;
    }
}

/* The latest reading that any thread has finished. */
static _Atomic uint64_t latest_ns;
static _Atomic uint64_t worst_ns; // by how much a later reading was below that

static void raise_to(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t seen = atomic_load(word);
    while (seen < value && !atomic_compare_exchange_weak(word, &seen, value)) {
    }
}

/* Lets no later instruction begin before every earlier load has its value. Without it the processor
 * reads its counter while it waits for `latest_ns`, which other threads write: up to 4 us early. */
static void wait_for_loads(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#endif // elsewhere it is clock_gettime(), which waits by itself
}

static void *read_clock(void *argument)
{
    (void)argument;
    for (int i = 0; i < READINGS; i++) {
        uint64_t floor_ns = atomic_load(&latest_ns); // read by somebody before this reading begins
        wait_for_loads();
        uint64_t now_ns = weir_clock_now_ns();
        raise_to(&worst_ns, now_ns < floor_ns ? floor_ns - now_ns : 0);
        raise_to(&latest_ns, now_ns);
    }
    return NULL;
}

static void test_threads_agree_within_the_stated_error(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_clock, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    print_message("between threads: at most %llu ns back\n",
                  (unsigned long long)atomic_load(&worst_ns));
    assert_true(atomic_load(&worst_ns) <= WEIR_CLOCK_ERROR_NS_MAX);
}

/* Its first readings, beside the kernel's: whether all were within the stated error. */
static void *begin_to_read(void *argument)
{
    bool *is_good = argument;
    for (int i = 0; i < FIRST_READINGS; i++) {
        uint64_t before_ns = kernel_now_ns();
        uint64_t now_ns = weir_clock_now_ns();
        uint64_t after_ns = kernel_now_ns();
        if (now_ns + WEIR_CLOCK_ERROR_NS_MAX < before_ns
            || now_ns > after_ns + WEIR_CLOCK_ERROR_NS_MAX) {
            *is_good = false;
        }
    }
    return NULL;
}

/* It begins with the rate that other threads have measured; the tests before this one have. */
static void test_a_new_thread_begins_within_the_stated_error(void **state)
{
    (void)state;
    for (int i = 0; i < NEW_THREADS; i++) {
        pthread_t thread;
        bool is_good = true;
        assert_int_equal(pthread_create(&thread, NULL, begin_to_read, &is_good), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(is_good);
    }
}

static void test_goes_on_after_a_long_rest(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) { // between readings: longer than an anchor is good for
        (void)weir_clock_now_ns();
        uint64_t until_ns = kernel_now_ns() + 20000000;
        uint64_t before_ns;
        do {
            before_ns = kernel_now_ns();
        } while (before_ns < until_ns);
        uint64_t now_ns = weir_clock_now_ns();
        uint64_t after_ns = kernel_now_ns();
        assert_true(now_ns + WEIR_CLOCK_ERROR_NS_MAX >= before_ns);
        assert_true(now_ns <= after_ns + WEIR_CLOCK_ERROR_NS_MAX);
    }
}

static void test_utc_is_the_wall_clocks_within_the_noise_that_is_told(void **state)
{
    (void)state;
    const struct store_clock clock = {.shared = NULL};
    struct utc_reading reading = store_clock_read_utc(&clock);
    struct timespec time;
    uint64_t before_ns = weir_clock_now_ns();
    (void)clock_gettime(CLOCK_REALTIME, &time);
    uint64_t after_ns = weir_clock_now_ns();
    uint64_t wall_ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    uint64_t noise_ns = reading.noise_ns + 2 * WEIR_CLOCK_ERROR_NS_MAX;
    assert_true(before_ns + reading.offset_ns <= wall_ns + noise_ns);
    assert_true(wall_ns <= after_ns + reading.offset_ns + noise_ns);
}

static void test_only_a_step_of_the_wall_clock_changes_the_offset(void **state)
{
    (void)state;
    const uint64_t step_ns = UTC_STEP_NS + 1;
    assert_int_equal(utc_settle(step_ns, (struct utc_reading){0, 0}), 0);
    assert_int_equal(utc_settle(0, (struct utc_reading){step_ns, 0}), step_ns);
    assert_int_equal(utc_settle(0, (struct utc_reading){0 - step_ns, 0}), 0 - step_ns);
    assert_int_equal(utc_settle(0, (struct utc_reading){UTC_STEP_NS, 0}), 0);
    assert_int_equal(utc_settle(0, (struct utc_reading){0 - UTC_STEP_NS, 0}), 0);
    assert_int_equal(utc_settle(0, (struct utc_reading){step_ns, UTC_STEP_NS}), 0); // says nothing
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_runs_backwards_within_a_thread),
        cmocka_unit_test(test_is_the_kernels_clock_within_the_stated_error),
        cmocka_unit_test(test_threads_agree_within_the_stated_error),
        cmocka_unit_test(test_a_new_thread_begins_within_the_stated_error),
        cmocka_unit_test(test_goes_on_after_a_long_rest),
        cmocka_unit_test(test_utc_is_the_wall_clocks_within_the_noise_that_is_told),
        cmocka_unit_test(test_only_a_step_of_the_wall_clock_changes_the_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
