/* SPDX-License-Identifier: MIT
 *
 * What `weir simulate` reads lines with, and what it keeps of them: input.c, trace.c, worst.c, axis.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/simulate/axis.h"
#include "cli/simulate/input.h"
#include "cli/simulate/trace.h"
#include "cli/simulate/worst.h"

/* ---- Lines ---- */

/* A file with these bytes, open and nameless. */
static struct input input_with(const char *bytes, size_t length)
{
    char path[] = "/tmp/weir-recording-XXXXXX";
    int fd = mkstemp(path);
    struct input input;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    assert_true(input_open(&input, path));
    assert_int_equal(input.bytes_at_most, length);
    (void)close(fd);
    (void)unlink(path);
    return input;
}

/* The next line; refills as often as that needs. */
static enum input_status next(struct input *input, struct bytes *line)
{
    enum input_status status;
    while ((status = input_next(input, line)) == INPUT_DRY) {
        input_refill(input);
    }
    return status;
}

static void next_is(struct input *input, const char *expected, uint64_t number)
{
    struct bytes line;
    assert_int_equal(next(input, &line), INPUT_LINE);
    assert_int_equal(line.length, strlen(expected));
    assert_memory_equal(line.at, expected, line.length);
    assert_int_equal(input->line_number, number);
}

static void lines_end_in_any_of_the_usual_ways(void **state)
{
    (void)state;
    static const char TEXT[] = "one\ntwo\r\n\n\r\nlast";
    struct input input = input_with(TEXT, strlen(TEXT));
    struct bytes line;
    next_is(&input, "one", 1);
    next_is(&input, "two", 2);
    next_is(&input, "", 3);
    next_is(&input, "", 4);
    next_is(&input, "last", 5);
    assert_int_equal(next(&input, &line), INPUT_END);
    assert_int_equal(next(&input, &line), INPUT_END);
    input_close(&input);
}

/* One line around every length at which something changes, between two others. */
static void a_line_that_is_too_long_is_passed_over_once(void **state)
{
    (void)state;
    static const size_t LENGTHS[] = {
        INPUT_LINE_BYTES_MAX - 1, INPUT_LINE_BYTES_MAX, INPUT_LINE_BYTES_MAX + 1,
        INPUT_BYTES - 3,          INPUT_BYTES,          3 * INPUT_BYTES + 17,
    };
    for (size_t i = 0; i < 2 * sizeof LENGTHS / sizeof LENGTHS[0]; i++) {
        size_t length = LENGTHS[i / 2];
        bool has_end = i % 2 == 0;
        char *bytes = malloc(length + 16);
        assert_non_null(bytes);
        memcpy(bytes, "a\n", 2);
        memset(bytes + 2, 'x', length);
        memcpy(bytes + 2 + length, "\nb\n", 3);
        struct input input = input_with(bytes, 2 + length + (has_end ? 3 : 0));
        struct bytes line;
        next_is(&input, "a", 1);
        bool fits = length <= INPUT_LINE_BYTES_MAX;
        assert_int_equal(next(&input, &line), fits ? INPUT_LINE : INPUT_LONG);
        assert_int_equal(input.line_number, 2);
        assert_true(!fits || line.length == length);
        if (has_end) {
            next_is(&input, "b", 3);
        }
        assert_int_equal(next(&input, &line), INPUT_END);
        input_close(&input);
        free(bytes);
    }
}

/* Of a file that grows: what was read once, and from where that began. */
static void what_was_read_can_be_read_again(void **state)
{
    (void)state;
    char path[] = "/tmp/weir-recording-XXXXXX";
    int fd = mkstemp(path);
    struct input input;
    struct bytes line;
    assert_int_equal(write(fd, "one\nhalf", 8), 8);
    assert_true(input_open(&input, path));
    next_is(&input, "one", 1);
    next_is(&input, "half", 2);
    assert_int_equal(next(&input, &line), INPUT_END);
    assert_int_equal(write(fd, " a line\nmore\n", 13), 13);
    assert_true(input_again(&input));
    next_is(&input, "one", 1);
    next_is(&input, "half", 2);
    assert_int_equal(next(&input, &line), INPUT_END);
    assert_int_equal(input.failed, 0);
    input_close(&input);
    (void)close(fd);
    (void)unlink(path);
}

static void a_pipe_is_not_read_again(void **state)
{
    (void)state;
    struct input input;
    struct bytes line;
    int ends[2];
    char path[32];
    assert_int_equal(pipe(ends), 0);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_true(input_open(&input, path));
    assert_int_equal(write(ends[1], "one\n", 4), 4);
    (void)close(ends[1]);
    next_is(&input, "one", 1);
    assert_int_equal(next(&input, &line), INPUT_END);
    assert_false(input_again(&input));
    input_close(&input);
    (void)close(ends[0]);
}

static void lines_are_whole_wherever_a_piece_ends(void **state)
{
    (void)state;
    enum { COUNT = 400000 };
    char *bytes = malloc(8 * COUNT);
    assert_non_null(bytes);
    for (int i = 0; i < COUNT; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%06d\n", i);
        memcpy(bytes + 7 * i, line, 7);
    }
    struct input input = input_with(bytes, 7 * (size_t)COUNT);
    for (int i = 0; i < COUNT; i++) {
        char expected[16];
        (void)snprintf(expected, sizeof expected, "%06d", i);
        next_is(&input, expected, (uint64_t)i + 1);
    }
    input_close(&input);
    free(bytes);
}

/* ---- The worst ---- */

static void add_times(struct worst *worst, uint64_t key, uint64_t times)
{
    char text[32];
    int length = snprintf(text, sizeof text, "key %llu", (unsigned long long)key);
    for (uint64_t i = 0; i < times; i++) {
        worst_add(worst, key * 0x9e3779b97f4a7c15, (struct bytes){text, (size_t)length});
    }
}

static void few_keys_are_counted_exactly(void **state)
{
    (void)state;
    struct worst *worst = calloc(1, sizeof *worst);
    const struct worst_key *sorted[3];
    assert_int_equal(worst_list(worst, sorted, 3), 0);
    for (uint64_t round = 0; round < 5; round++) {
        for (uint64_t key = 1; key <= WORST_COUNT; key++) {
            add_times(worst, key, key);
        }
    }
    assert_int_equal(worst_list(worst, sorted, 3), 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(sorted[i]->count, 5 * (WORST_COUNT - i));
        assert_int_equal(sorted[i]->error, 0);
    }
    assert_memory_equal(sorted[0]->text, "key 1024", 8);
    free(worst);
}

/* Counts are never too low and too high by at most their error, and the frequent are always there. */
static void many_keys_are_counted_within_their_error(void **state)
{
    (void)state;
    enum { KEYS = 20000 };
    struct worst *worst = calloc(1, sizeof *worst);
    uint64_t *counts = calloc(KEYS + 1, sizeof *counts);
    bool *is_listed = calloc(KEYS + 1, sizeof *is_listed);
    uint64_t random = 1;
    uint64_t total = 0;
    for (int i = 0; i < 300000; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        uint64_t key = 1 + (random >> 33) % KEYS;
        key = (random >> 20) % 4 == 0 ? 1 + key % 10 : key; // ten of them come often
        add_times(worst, key, 1);
        counts[key]++;
        total++;
    }
    const struct worst_key *sorted[WORST_COUNT];
    size_t count = worst_list(worst, sorted, WORST_COUNT);
    uint64_t sum = 0;
    assert_int_equal(count, WORST_COUNT);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = sorted[i]->hash * 0xf1de83e19937733d; // the inverse of the multiplier
        assert_true(sorted[i]->count >= counts[key]);
        assert_true(sorted[i]->count - sorted[i]->error <= counts[key]);
        assert_true(i == 0 || sorted[i]->count <= sorted[i - 1]->count);
        sum += sorted[i]->count;
        assert_false(is_listed[key]); // a key has one counter
        is_listed[key] = true;
    }
    assert_int_equal(sum, total); // every arrival is in exactly one counter
    for (size_t i = 0; i < 10; i++) {
        assert_true(sorted[i]->hash * 0xf1de83e19937733d <= 10);
    }
    free(counts);
    free(is_listed);
    free(worst);
}

static void long_keys_are_cut_where_they_are_kept(void **state)
{
    (void)state;
    struct worst *worst = calloc(1, sizeof *worst);
    const struct worst_key *sorted[1];
    char key[1000];
    memset(key, 'k', sizeof key);
    worst_add(worst, 1, (struct bytes){key, sizeof key});
    assert_int_equal(worst_list(worst, sorted, 1), 1);
    assert_int_equal(sorted[0]->length, sizeof key);
    assert_memory_equal(sorted[0]->text, key, WORST_KEY_BYTES);
    free(worst);
}

/* ---- Bins ---- */

static void bins_widen_and_lose_nobody(void **state)
{
    (void)state;
    struct bins *bins = calloc(1, sizeof *bins);
    bins->origin_ns = 1000;
    bins->unit_ns = 3;
    for (uint64_t i = 0; i < 100000; i++) {
        struct bin *bin = bins_at(bins, 1000 + i * i);
        bin->admitted++;
        bin->refused += i % 3 == 0;
        bin_note_level(bin, (double)(i % 100), 5000 + i * i);
    }
    uint64_t admitted = 0;
    uint64_t refused = 0;
    double peak = 0;
    uint64_t drained_ns = 0;
    for (size_t i = 0; i < BIN_COUNT; i++) {
        admitted += bins->bins[i].admitted;
        refused += bins->bins[i].refused;
        peak = bins->bins[i].peak > peak ? bins->bins[i].peak : peak;
        drained_ns = bins->bins[i].drained_ns > drained_ns ? bins->bins[i].drained_ns : drained_ns;
    }
    assert_int_equal(admitted, 100000);
    assert_int_equal(refused, 33334);
    assert_true(peak > 98.5 && peak < 99.5);
    assert_int_equal(drained_ns, 5000 + UINT64_C(99999) * 99999);
    uint64_t width_ns = bins_width_ns(bins); // the last one is in the second half
    assert_true(UINT64_C(99999) * 99999 / width_ns >= BIN_COUNT / 2);
    assert_ptr_equal(bins_at(bins, 1000), &bins->bins[0]);
    assert_ptr_equal(bins_at(bins, 1000 + width_ns), &bins->bins[1]);
    free(bins);
}

static void a_recording_knows_its_ends_and_who_was_late(void **state)
{
    (void)state;
    struct recording *recording = calloc(1, sizeof *recording);
    recording_add(recording, 50, 1, 7);
    recording_add(recording, 90, 1, 7);
    recording_add(recording, 30, 1, 7);
    recording_add(recording, 90, 1, 7);
    recording_add(recording, 80, 1, 7);
    assert_int_equal(recording->first_ns, 30);
    assert_int_equal(recording->latest_ns, 90);
    assert_int_equal(recording->late_count, 2);
    assert_int_equal(recording->late_max_ns, 60);
    assert_false(recording->has_keys);
    recording_add(recording, 91, 1, 8);
    assert_true(recording->has_keys);
    free(recording);
}

static void a_history_keeps_the_first_and_counts_all(void **state)
{
    (void)state;
    struct history *history = calloc(1, sizeof *history);
    for (uint64_t i = 0; i < KEPT_COUNT_MAX; i++) {
        history_add(history, 10 * i, i);
    }
    assert_true(history_is_whole(history));
    history_add(history, 1, 1);
    assert_false(history_is_whole(history));
    assert_int_equal(history->count, KEPT_COUNT_MAX + 1);
    assert_int_equal(history->kept[KEPT_COUNT_MAX - 1].at_ns, 10 * (KEPT_COUNT_MAX - 1));
    free(history);
}

/* ---- The axis ---- */

static void steps_of_the_axis_are_round_and_few(void **state)
{
    (void)state;
    static const struct {
        uint64_t range_ns, step_ns;
    } CASES[] = {
        {1, 1},
        {2400 * NS_PER_MS, 500 * NS_PER_MS},
        {8 * NS_PER_S, NS_PER_S},
        {100 * NS_PER_S, 20 * NS_PER_S},
        {8 * 60 * NS_PER_S, 60 * NS_PER_S},
        {86400 * NS_PER_S, 10800 * NS_PER_S},
        {UINT64_C(365) * 86400 * NS_PER_S, UINT64_C(50) * 86400 * NS_PER_S},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_int_equal(axis_step(CASES[i].range_ns, 8), CASES[i].step_ns);
    }
    for (uint64_t range_ns = 1; range_ns < UINT64_C(1) << 62; range_ns += range_ns / 7 + 1) {
        assert_true(range_ns / axis_step(range_ns, 8) <= 8);
    }
    char text[AXIS_RATE_MAX];
    assert_string_equal(axis_rate(2079.6, text), "2080/s");
    assert_string_equal(axis_rate(0.125, text), "0.125/s");
    assert_string_equal(axis_rate(1500000, text), "1.5M/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_in_any_of_the_usual_ways),
        cmocka_unit_test(a_line_that_is_too_long_is_passed_over_once),
        cmocka_unit_test(what_was_read_can_be_read_again),
        cmocka_unit_test(a_pipe_is_not_read_again),
        cmocka_unit_test(lines_are_whole_wherever_a_piece_ends),
        cmocka_unit_test(few_keys_are_counted_exactly),
        cmocka_unit_test(many_keys_are_counted_within_their_error),
        cmocka_unit_test(long_keys_are_cut_where_they_are_kept),
        cmocka_unit_test(bins_widen_and_lose_nobody),
        cmocka_unit_test(a_recording_knows_its_ends_and_who_was_late),
        cmocka_unit_test(a_history_keeps_the_first_and_counts_all),
        cmocka_unit_test(steps_of_the_axis_are_round_and_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
