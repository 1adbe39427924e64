/* SPDX-License-Identifier: MIT
 *
 * Plans, as text. Batches are parted by |, a run is in (). A letter is a name, a digit a cost; ? reads:
 *
 *     A1 B1 | A2 | A1 B?          batch 0 takes 1 of A and 1 of B, batch 1 takes 2 of A, batch 2 takes of A and reads B
 *     A1:0,3 B1:1 / A2:2 B?:4     the plan: two waves, and which questions each entry answers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/plan.h"
#include "weir/limit.h"

enum { COUNT_MAX = 64, TEXT_MAX = 1024 };

static struct plan_question question_of(char name, char cost, uint32_t batch)
{
    struct plan_question question = {.batch = batch};
    question.name[0] = (uint8_t)name;
    question.is_read = cost == '?';
    if (!question.is_read) {
        question.span.ns = (uint64_t)(cost - '0') * 100;
        question.full.ns = 1000;
        question.denominator = 1;
    }
    return question;
}

static size_t read_questions(const char *text, struct plan_question *questions)
{
    size_t count = 0;
    uint32_t batch = 0;
    bool is_in_run = false;
    for (; *text != '\0'; text++) {
        batch += *text == '|';
        if (*text == ')') {
            questions[count - 1].and_next = false;
        }
        is_in_run = *text == '(' || (is_in_run && *text != ')');
        if (isupper((unsigned char)*text)) {
            questions[count] = question_of(text[0], text[1], batch);
            questions[count++].and_next = is_in_run;
            text++;
        }
    }
    return count;
}

struct text {
    char text[TEXT_MAX];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    text->len += (size_t)vsnprintf(text->text + text->len, TEXT_MAX - text->len, format, values);
    va_end(values);
    assert_true(text->len < TEXT_MAX);
}

static void print_entry(struct text *text, const struct plan_question *questions,
                        const struct plan_entry *entry)
{
    const struct plan_question *first = &questions[entry->questions[0]];
    char cost = first->is_read ? '?' : (char)('0' + first->span.ns / 100);
    print(text, "%c%c:", first->name[0], cost);
    for (uint32_t i = 0; i < entry->count; i++) {
        print(text, "%s%u", i == 0 ? "" : ",", entry->questions[i]);
    }
    print(text, " ");
}

static void print_run(struct text *text, const struct plan_question *questions,
                      const struct plan_entry *run)
{
    print(text, "(");
    for (uint32_t i = 0; i < run->count; i++) {
        print(text, "%s%c:%u", i == 0 ? "" : " ", questions[run->questions[i]].name[0],
              run->questions[i]);
    }
    print(text, ") ");
}

static void print_wave(struct text *text, const struct plan_question *questions,
                       const struct plan_wave *wave)
{
    for (uint32_t i = 0; i < wave->take_count; i++) {
        print_entry(text, questions, &wave->takes[i]);
    }
    for (uint32_t i = 0; i < wave->read_count; i++) {
        print_entry(text, questions, &wave->reads[i]);
    }
    for (uint32_t i = 0; i < wave->run_count; i++) {
        print_run(text, questions, &wave->runs[i]);
    }
}

/* Memory of just the size that is asked for, and not empty: sanitizers watch its ends. */
static void *lend(size_t count)
{
    size_t bytes = plan_bytes(count);
    void *memory = malloc(bytes);
    assert_true(memory != NULL || bytes == 0);
    if (memory != NULL) {
        memset(memory, 0xa5, bytes);
    }
    return memory;
}

static struct text plan_text(const char *asked)
{
    struct plan_question questions[COUNT_MAX];
    size_t count = read_questions(asked, questions);
    void *memory = lend(count);
    struct plan_waves plan = plan_make(questions, count, memory);
    struct text text = {.len = 0};
    for (size_t i = 0; i < plan.count; i++) {
        print(&text, "%s", i == 0 ? "" : "/ ");
        print_wave(&text, questions, &plan.waves[i]);
    }
    text.text[text.len > 0 ? text.len - 1 : 0] = '\0';
    free(memory);
    return text;
}

static void assert_plan(const char *asked, const char *expected)
{
    struct text plan = plan_text(asked);
    assert_string_equal(plan.text, expected);
}

/* ---- takes and reads ---- */

static void header_s_example(void **state)
{
    (void)state;
    assert_plan("A1 B1 | A2 | A1 B?", "A1:0,3 B1:1 / A2:2 B?:4");
}

/* docs/design/stores.md */
static void example_of_the_design(void **state)
{
    (void)state;
    assert_plan("X1 | X2 | X1 Y1 | (X1 Z1) | Y?", "X1:0,2 Y1:3 / Y?:6 (X:4 Z:5) / X2:1");
}

static void nothing_needs_no_wave(void **state)
{
    (void)state;
    assert_int_equal(plan_bytes(0), 0);
    assert_int_equal(plan_make(NULL, 0, NULL).count, 0);
}

static void entries_are_sorted_by_name(void **state)
{
    (void)state;
    assert_plan("C1 A1 | B1 D? | B?", "A1:1 B1:2 C1:0 D?:3 / B?:4");
}

static void equal_takes_fold(void **state)
{
    (void)state;
    assert_plan("A1 A1 A1", "A1:0,1,2");
    assert_plan("A1 B1 | B1 A1 | A1 B1", "A1:0,3,4 B1:1,2,5");
}

static void reads_of_a_name_fold(void **state)
{
    (void)state;
    assert_plan("A? B? | A? A?", "A?:0,2,3 B?:1");
}

static void reads_fold_whatever_their_limits_are(void **state)
{
    (void)state;
    struct plan_question questions[] = {question_of('A', '?', 0), question_of('A', '1', 1)};
    questions[1].is_read = true;
    void *memory = lend(2);
    struct plan_waves plan = plan_make(questions, 2, memory);
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.waves[0].read_count, 1);
    assert_int_equal(plan.waves[0].reads[0].count, 2);
    free(memory);
}

static void reads_and_takes_of_a_name_are_apart(void **state)
{
    (void)state;
    assert_plan("A1 A?", "A1:0 / A?:1");
    assert_plan("A? A1 A?", "A?:0 / A1:1 / A?:2");
    assert_plan("A? | A1 | A? | A1", "A?:0,2 / A1:1,3");
}

static size_t count_waves(const struct plan_question *one, const struct plan_question *other)
{
    struct plan_question questions[] = {*one, *other};
    void *memory = lend(2);
    size_t waves = plan_make(questions, 2, memory).count;
    free(memory);
    return waves;
}

static void takes_with_other_numbers_are_apart(void **state)
{
    (void)state;
    struct plan_question take = question_of('A', '1', 0);
    take.denominator = 7;
    struct plan_question other = take;
    assert_int_equal(count_waves(&take, &other), 1);
    other.span.ns++;
    assert_int_equal(count_waves(&take, &other), 2);
    other = take;
    other.span.rest++;
    assert_int_equal(count_waves(&take, &other), 2);
    other = take;
    other.full.ns++;
    assert_int_equal(count_waves(&take, &other), 2);
    other = take;
    other.full.rest++;
    assert_int_equal(count_waves(&take, &other), 2);
    other = take;
    other.denominator++;
    assert_int_equal(count_waves(&take, &other), 2);
}

/* The first byte that differs decides, whatever those behind it are. */
static void names_compare_as_bytes(void **state)
{
    (void)state;
    static const uint8_t ENDS[] = {0xff, 0x00, 0x80, 0x7f};
    static const uint32_t SORTED[] = {1, 3, 2, 0};
    for (size_t at = 0; at < BUCKET_NAME_BYTES; at++) {
        struct plan_question questions[4];
        for (size_t i = 0; i < 4; i++) {
            questions[i] = question_of('A', '1', 0);
            memset(questions[i].name + at, ~ENDS[i], BUCKET_NAME_BYTES - at);
            questions[i].name[at] = ENDS[i];
        }
        void *memory = lend(4);
        struct plan_waves plan = plan_make(questions, 4, memory);
        assert_int_equal(plan.count, 1);
        assert_int_equal(plan.waves[0].take_count, 4);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(plan.waves[0].takes[i].questions[0], SORTED[i]);
        }
        free(memory);
    }
}

/* ---- order ---- */

static void two_costs_of_a_hot_key_take_two_waves(void **state)
{
    (void)state;
    assert_plan("A1 | A2 | A1 | A2 | A1 | A2", "A1:0,2,4 / A2:1,3,5");
    assert_plan("A1 A2 | A1 A2 | A1 A2", "A1:0,2,4 / A2:1,3,5");
}

static void fold_does_not_overtake_its_own_batch(void **state)
{
    (void)state;
    assert_plan("A1 A2 A1", "A1:0 / A2:1 / A1:2");
    assert_plan("A1 A2 | A2 A1 | A1", "A1:0,4 / A2:1,2 / A1:3");
}

/* B1 could go in the first wave, and B2 then in the second one. But 2 would be before 3, which is before 4 in its batch,
 * which is before 1, which is before 2 in its batch. */
static void other_names_keep_the_order_of_a_batch(void **state)
{
    (void)state;
    assert_plan("A1 | A2 B1 | B2 A1", "A1:0,4 B2:3 / A2:1 B1:2");
}

static void those_wait_only_while_their_name_is_held(void **state)
{
    (void)state;
    assert_plan("A1 A2 A3 B1 | B2 C1 | C2", "A1:0 B2:4 C1:5 / A2:1 C2:6 / A3:2 B1:3");
}

static void that_goes_next_which_has_waited_longest(void **state)
{
    (void)state;
    assert_plan("A1 | A2 | A3 | A4", "A1:0 / A2:1 / A3:2 / A4:3");
    assert_plan("A1 A2 A3 | A4 | A2", "A1:0 / A2:1,4 / A4:3 / A3:2");
}

/* ---- runs ---- */

static void run_is_sorted_by_name(void **state)
{
    (void)state;
    assert_plan("(C1 A1 B2)", "(A:1 B:2 C:0)");
}

static void run_of_one_is_a_take(void **state)
{
    (void)state;
    assert_plan("(A1) | A1", "A1:0,1");
}

static void runs_share_names_and_keep_their_order(void **state)
{
    (void)state;
    assert_plan("(B1 A1) | (A2 C1) (A1 B1)", "(A:1 B:0) (A:2 C:3) (A:4 B:5)");
}

static void run_and_entry_of_a_name_are_apart(void **state)
{
    (void)state;
    assert_plan("(A1 B1) | B1 C1", "(A:0 B:1) / B1:2 C1:3");
    assert_plan("B1 C1 | (A1 B1) | D1", "B1:0 C1:1 D1:4 / (A:2 B:3)");
    assert_plan("(A1 B1) | B?", "(A:0 B:1) / B?:2");
    assert_plan("A1 (A1 B1) A1", "A1:0 / (A:1 B:2) / A1:3");
}

/* Of B2, which has waited as long, and of what comes behind D1. */
static void runs_that_wait_go_before_others(void **state)
{
    (void)state;
    assert_plan("B1 D1 | B2 | D2 B2 | (A1 B1)", "B1:0 D1:1 / D2:3 (A:5 B:6) / B2:2,4");
}

static void wave_without_room_for_a_run_leaves_its_names_free(void **state)
{
    (void)state;
    assert_plan("B1 | (A1 B1) | A1", "A1:3 B1:0 / (A:1 B:2)");
}

/* ---- many ---- */

/* Whatever costs more than its share here shows as a test that never ends. */
static void many_that_do_not_fold(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    struct plan_question *questions = malloc(COUNT * sizeof *questions);
    assert_non_null(questions);
    for (uint32_t i = 0; i < COUNT; i++) {
        questions[i] = question_of('A', '1', i);
        questions[i].span.ns = i + 1;
        questions[i].full.ns = COUNT;
    }
    void *memory = lend(COUNT);
    struct plan_waves plan = plan_make(questions, COUNT, memory);
    assert_int_equal(plan.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(plan.waves[i].takes[0].questions[0], i);
    }
    free(memory);
    free(questions);
}

static void many_that_fold(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    struct plan_question *questions = malloc(COUNT * sizeof *questions);
    assert_non_null(questions);
    for (uint32_t i = 0; i < COUNT; i++) {
        questions[i] = question_of('A', i % 2 == 0 ? '1' : '2', i);
    }
    void *memory = lend(COUNT);
    struct plan_waves plan = plan_make(questions, COUNT, memory);
    assert_int_equal(plan.count, 2);
    assert_int_equal(plan.waves[0].takes[0].count, COUNT / 2);
    assert_int_equal(plan.waves[1].takes[0].count, COUNT / 2);
    free(memory);
    free(questions);
}

/* ---- answers ---- */

static void assert_moment(const struct plan_question *question, uint32_t place, uint32_t took,
                          struct span last, struct span expected)
{
    struct span moment = plan_moment_after(question, place, took, last);
    assert_int_equal(moment.ns, expected.ns);
    assert_int_equal(moment.rest, expected.rest);
}

static void moments_of_an_entry(void **state)
{
    (void)state;
    struct plan_question take = question_of('A', '1', 0);
    struct span last = {700, 0};
    assert_moment(&take, 0, 2, last, (struct span){600, 0});
    assert_moment(&take, 1, 2, last, last);
    assert_moment(&take, 2, 2, last, last);
    assert_moment(&take, 3, 2, last, last);
    assert_moment(&take, 0, 0, last, last);
}

/* A span of 2 2/3 ns: 10, 12 2/3, 15 1/3, 18, and 20 2/3 ns. */
static void moments_carry(void **state)
{
    (void)state;
    struct plan_question take = {.span = {2, 2}, .full = {30, 0}, .denominator = 3};
    struct span last = {20, 2};
    assert_moment(&take, 0, 5, last, (struct span){10, 0});
    assert_moment(&take, 1, 5, last, (struct span){12, 2});
    assert_moment(&take, 2, 5, last, (struct span){15, 1});
    assert_moment(&take, 3, 5, last, (struct span){18, 0});
    assert_moment(&take, 4, 5, last, (struct span){20, 2});
}

/* From a million takes back, where every rest is as large as it can be. */
static void moments_of_the_largest_entry(void **state)
{
    (void)state;
    struct plan_question take = {.span = {3, WEIR_DENOMINATOR_MAX - 1},
                                 .full = {WEIR_SPAN_NS_MAX, 0},
                                 .denominator = WEIR_DENOMINATOR_MAX};
    /* Each span is 4 ns but for a D-th. */
    uint64_t later = PLAN_QUESTIONS_MAX - 1;
    struct span last = {UINT64_C(1) << 62, 0};
    assert_moment(&take, 0, PLAN_QUESTIONS_MAX, last, (struct span){last.ns - 4 * later, later});
}

static void rest_of_another_limit_is_a_nanosecond(void **state)
{
    (void)state;
    struct plan_question read = {.is_read = true, .denominator = 3};
    assert_moment(&read, 0, 0, (struct span){20, 2}, (struct span){20, 2});
    assert_moment(&read, 0, 0, (struct span){20, 3}, (struct span){21, 0});
    assert_moment(&read, 0, 0, (struct span){20, 9}, (struct span){21, 0});
}

static void fits_an_empty_bucket(void **state)
{
    (void)state;
    struct plan_question take = {
        .span = {2, 2}, .full = {8, 0}, .denominator = 3}; // three just fit
    assert_int_equal(plan_fit_empty(&take, 1), 1);
    assert_int_equal(plan_fit_empty(&take, 3), 3);
    assert_int_equal(plan_fit_empty(&take, 4), 3);
    assert_int_equal(plan_fit_empty(&take, PLAN_QUESTIONS_MAX), 3);
    take.full = (struct span){7, 2}; // a third of a nanosecond less
    assert_int_equal(plan_fit_empty(&take, 3), 2);
    take.full = (struct span){WEIR_SPAN_NS_MAX, 0};
    take.span = (struct span){0, 1};
    take.denominator = WEIR_DENOMINATOR_MAX;
    take.span.rest = 1;
    assert_int_equal(plan_fit_empty(&take, PLAN_QUESTIONS_MAX), PLAN_QUESTIONS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_s_example),
        cmocka_unit_test(example_of_the_design),
        cmocka_unit_test(nothing_needs_no_wave),
        cmocka_unit_test(entries_are_sorted_by_name),
        cmocka_unit_test(equal_takes_fold),
        cmocka_unit_test(reads_of_a_name_fold),
        cmocka_unit_test(reads_fold_whatever_their_limits_are),
        cmocka_unit_test(reads_and_takes_of_a_name_are_apart),
        cmocka_unit_test(takes_with_other_numbers_are_apart),
        cmocka_unit_test(names_compare_as_bytes),
        cmocka_unit_test(two_costs_of_a_hot_key_take_two_waves),
        cmocka_unit_test(fold_does_not_overtake_its_own_batch),
        cmocka_unit_test(other_names_keep_the_order_of_a_batch),
        cmocka_unit_test(those_wait_only_while_their_name_is_held),
        cmocka_unit_test(that_goes_next_which_has_waited_longest),
        cmocka_unit_test(run_is_sorted_by_name),
        cmocka_unit_test(run_of_one_is_a_take),
        cmocka_unit_test(runs_share_names_and_keep_their_order),
        cmocka_unit_test(run_and_entry_of_a_name_are_apart),
        cmocka_unit_test(runs_that_wait_go_before_others),
        cmocka_unit_test(wave_without_room_for_a_run_leaves_its_names_free),
        cmocka_unit_test(many_that_do_not_fold),
        cmocka_unit_test(many_that_fold),
        cmocka_unit_test(moments_of_an_entry),
        cmocka_unit_test(moments_carry),
        cmocka_unit_test(moments_of_the_largest_entry),
        cmocka_unit_test(rest_of_another_limit_is_a_nanosecond),
        cmocka_unit_test(fits_an_empty_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
