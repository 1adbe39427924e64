/* SPDX-License-Identifier: MIT
 *
 * The shaper in random traces, beside a model that keeps every item's span and adds them all up each
 * time. */
#include "../support/letters_in_line.h"

/* The model counts in N-ths of a nanosecond, where the limit is N millionths per P: then everything is a
 * whole number, and a cost of m lasts m * P. */
__extension__ typedef __int128 wide;

enum { MODEL_MAX = 64 };

static struct {
    struct weir_limit_config limit;
    wide front; // when the first in line starts
    struct {
        uint64_t ticket, cost_micro, value;
    } line[MODEL_MAX];
    size_t count, places;
} model;

static wide in_parts(uint64_t ns)
{
    return (wide)ns * model.limit.count_micro;
}

static uint64_t in_ns_up(wide parts)
{
    return (uint64_t)((parts + model.limit.count_micro - 1) / model.limit.count_micro);
}

static wide lasts(uint64_t cost_micro)
{
    return (wide)cost_micro * model.limit.period_ns;
}

static wide model_back(void)
{
    wide back = model.front;
    for (size_t i = 0; i < model.count; i++) {
        back += lasts(model.line[i].cost_micro);
    }
    return back;
}

static wide model_egress(wide start, uint64_t cost_micro)
{
    return model.limit.first == WEIR_FIRST_NOW ? start : start + lasts(cost_micro);
}

static void model_settle(uint64_t now_ns)
{
    if (model.count > 0) {
        wide egress = model_egress(model.front, model.line[0].cost_micro);
        if (in_ns_up(egress) + WEIR_JITTER_NS < now_ns) {
            model.front += in_parts(now_ns) - egress;
        }
    }
}

static void model_remove(size_t at)
{
    model.count--;
    memmove(&model.line[at], &model.line[at + 1], (model.count - at) * sizeof model.line[0]);
}

static bool model_fits(wide back, uint64_t cost_micro, uint64_t now_ns)
{
    wide start = back > in_parts(now_ns) ? back : in_parts(now_ns);
    uint64_t one_more = model.limit.first == WEIR_FIRST_NOW ? WEIR_UNIT : 0;
    return cost_micro == 0
           || (cost_micro <= model.limit.capacity_micro
               && start + lasts(cost_micro)
                      <= in_parts(now_ns) + lasts(model.limit.capacity_micro + one_more));
}

static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * UINT64_C(2685821657736338717) >> 16) % bound;
}

static uint64_t random_cost(void)
{
    static const uint64_t COSTS[] = {0, 1, 300000, WEIR_UNIT, WEIR_UNIT, WEIR_UNIT, 2500000};
    return COSTS[random_below(sizeof COSTS / sizeof COSTS[0])];
}

static void step_submit(uint64_t now_ns, bool drops)
{
    static uint64_t values = 0;
    uint64_t cost_micro = random_cost(), value = ++values;
    model_settle(now_ns);
    size_t dropped = 0, dropped_before = told.count;
    if (drops && model_fits(model.front, cost_micro, now_ns)) {
        while (model.count == model.places || !model_fits(model_back(), cost_micro, now_ns)) {
            model_remove(0);
            dropped++;
        }
    }
    bool fits = model.count < model.places && model_fits(model_back(), cost_micro, now_ns);
    struct weir_submitted submitted =
        weir_shaper_submit(shaper, (void *)(uintptr_t)value, cost_micro, now_ns);
    assert_int_equal(submitted.ticket != 0, fits);
    assert_int_equal(told.count - dropped_before, dropped);
    if (!fits) {
        return;
    }
    wide back = model_back(), now = in_parts(now_ns);
    if (back < now) {
        model.front += now - back;
        back = now;
    }
    assert_int_equal(submitted.egress_ns, in_ns_up(model_egress(back, cost_micro)));
    model.line[model.count].ticket = submitted.ticket;
    model.line[model.count].cost_micro = cost_micro;
    model.line[model.count++].value = value;
}

static void step_pop(uint64_t now_ns)
{
    struct weir_released released;
    model_settle(now_ns);
    wide egress = model.count > 0 ? model_egress(model.front, model.line[0].cost_micro) : 0;
    bool due = model.count > 0 && egress <= in_parts(now_ns);
    assert_int_equal(weir_shaper_pop(shaper, now_ns, &released), due);
    if (due) {
        assert_int_equal((uintptr_t)released.item, model.line[0].value);
        assert_int_equal(released.ticket, model.line[0].ticket);
        assert_int_equal(released.cost_micro, model.line[0].cost_micro);
        assert_int_equal(released.egress_ns, in_ns_up(egress));
        model.front += lasts(model.line[0].cost_micro);
        model_remove(0);
    }
}

static void step_cancel(uint64_t now_ns)
{
    void *item = NULL;
    model_settle(now_ns);
    size_t at = (size_t)random_below(model.count);
    assert_true(weir_shaper_cancel(shaper, model.line[at].ticket, now_ns, &item));
    assert_int_equal((uintptr_t)item, model.line[at].value);
    model_remove(at);
}

static void step_swap(void)
{
    size_t one = (size_t)random_below(model.count), two = (size_t)random_below(model.count);
    assert_true(weir_shaper_swap(shaper, model.line[one].ticket, model.line[two].ticket));
    uint64_t value = model.line[one].value;
    model.line[one].value = model.line[two].value;
    model.line[two].value = value;
}

static void run_trace(uint64_t seed)
{
    static const char *const TEXTS[] = {"queue 5/s capacity=10",
                                        "queue 3/s capacity=4 first=now",
                                        "queue 7/13ms capacity=20",
                                        "queue 999983/s capacity=30",
                                        "queue 10000/s capacity=5",
                                        "queue 0.7/s capacity=2.5",
                                        "queue 1000/s capacity=9 first=now"};
    const char *text = TEXTS[seed % 7];
    bool drops = seed / 7 % 2 == 1;
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    memset(&model, 0, sizeof model);
    model.places = 1 + (size_t)random_below(40);
    assert_int_equal(weir_limit_parse(&model.limit, text, strlen(text), NULL), WEIR_OK);
    open_with(text, drops ? WEIR_OVERFLOW_DROP_OLDEST : WEIR_OVERFLOW_REFUSE,
              (uint32_t)model.places);
    uint64_t unit_ns = model.limit.period_ns * WEIR_UNIT / model.limit.count_micro;
    uint64_t now_ns = random_below(10 * S);
    for (int i = 0; i < 3000; i++) {
        uint64_t choice = random_below(16);
        if (choice < 6) {
            step_submit(now_ns, drops);
        } else if (choice < 10) {
            step_pop(now_ns);
        } else if (choice == 10 && model.count > 0) {
            step_cancel(now_ns);
        } else if (choice == 11 && model.count > 0) {
            step_swap();
        } else if (choice == 12 && model.count > 0) { // to the instant, or one before
            now_ns = weir_shaper_next_ns(shaper) - random_below(2);
        } else if (choice == 13 && random_below(8) == 0) {
            now_ns += random_below(20 * unit_ns + 2 * WEIR_JITTER_NS); // a stall
        } else {
            now_ns += random_below(unit_ns);
        }
        uint64_t next_ns = model.count == 0
                               ? UINT64_MAX
                               : in_ns_up(model_egress(model.front, model.line[0].cost_micro));
        assert_true(weir_shaper_next_ns(shaper) == next_ns);
        assert_int_equal(stats_of().item_count, model.count);
    }
    assert_int_equal(close_shaper(NULL), 0);
}

static void test_random_traces_agree_with_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 140; seed++) {
        run_trace(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHAPER_TEST(test_random_traces_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
