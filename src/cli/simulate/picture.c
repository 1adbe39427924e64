/* SPDX-License-Identifier: MIT */
#include "cli/simulate/picture.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "cli/duration.h"

/* A drain is drawn to its end if that takes at most so many times as long as the arrivals did;
 * otherwise a fifth of their time is drawn. */
enum { DRAIN_SHOWN_MAX = 5 };

struct picture_range picture_range(const struct simulate *simulate)
{
    const struct recording *recording = &simulate->recording;
    uint64_t span_ns = recording->latest_ns - recording->first_ns;
    uint64_t drained_ns = recording->latest_ns;
    for (size_t i = 0; i < simulate->lane_count; i++) {
        const struct bins *bins = &simulate->lanes[i].arriving;
        for (size_t j = 0; j < BIN_COUNT; j++) {
            uint64_t ns = bins->bins[j].drained_ns;
            drained_ns = ns > drained_ns ? ns : drained_ns;
        }
    }
    uint64_t drain_ns = drained_ns - recording->latest_ns;
    bool is_shown = span_ns == 0 || drain_ns / DRAIN_SHOWN_MAX <= span_ns;
    struct picture_range range = {
        .from_ns = recording->first_ns <= span_ns ? 0 : recording->first_ns,
        .to_ns = recording->latest_ns + (is_shown ? drain_ns : span_ns / DRAIN_SHOWN_MAX),
    };
    if (recording->has_keys) {
        range.to_ns =
            recording->latest_ns + simulate->lanes[0].arriving.unit_ns; // no level is drawn
    }
    range.to_ns += range.to_ns == range.from_ns; // never nothing at all
    return range;
}

static double place_of(struct picture_range range, uint64_t at_ns)
{
    double at = at_ns > range.from_ns ? (double)(at_ns - range.from_ns) : 0;
    return fmin(at / (double)(range.to_ns - range.from_ns), 1);
}

/* True if the middle one adds nothing to the line between the others. */
static bool on_one_line(const struct picture_point *a, const struct picture_point *b,
                        const struct picture_point *c, double top)
{
    if (c->at == a->at) {
        return (b->level - a->level) * (b->level - c->level) <= 0;
    }
    double expected = a->level + (c->level - a->level) * (b->at - a->at) / (c->at - a->at);
    return fabs(expected - b->level) <= 1e-6 * top;
}

static void add_point(struct picture *picture, double at, double level)
{
    struct picture_point *points = picture->points;
    struct picture_point point = {at, level};
    picture->top = fmax(picture->top, level);
    while (picture->point_count >= 2
           && on_one_line(&points[picture->point_count - 2], &points[picture->point_count - 1],
                          &point, picture->top)) {
        picture->point_count--;
    }
    assert(picture->point_count < PICTURE_POINTS_MAX);
    points[picture->point_count++] = point;
}

static void add_mark(struct picture *picture, struct picture_mark mark)
{
    assert(picture->mark_count < sizeof picture->marks / sizeof picture->marks[0]);
    picture->marks[picture->mark_count++] = mark;
}

/* ---- All arrivals are known: they come once more, and libweir is asked about times between ---- */

struct replay {
    const struct simulate *simulate;
    struct weir_limiter *limiter;
    struct weir_rule rule;
    struct picture *picture;
    struct picture_range range;
    uint64_t shown_ns;   // so far
    uint64_t drained_ns; // when the bucket will be empty
};

static void show(struct replay *replay, uint64_t at_ns)
{
    struct weir_detail detail;
    struct weir_decision unused;
    struct weir_request request = {
        .rule = &replay->rule, .key = "", .operation = WEIR_SHOW, .detail = &detail};
    weir_limiter_decide_at(replay->limiter, &request, &unused, 1, at_ns);
    add_point(replay->picture, place_of(replay->range, at_ns), amount_value(&detail.amount));
    replay->shown_ns = at_ns;
}

/* Every kind of limit has its own way to drain: so the level is looked at in even steps, and at the
 * moment at which it is zero. What lies on a line is dropped again. */
static void show_until(struct replay *replay, uint64_t until_ns)
{
    uint64_t step_ns = (replay->range.to_ns - replay->range.from_ns) / PICTURE_SAMPLES + 1;
    while (replay->shown_ns < until_ns) {
        uint64_t left_ns = until_ns - replay->shown_ns;
        uint64_t next_ns = replay->shown_ns + (left_ns < step_ns ? left_ns : step_ns);
        bool drains = replay->drained_ns > replay->shown_ns && replay->drained_ns < next_ns;
        show(replay, drains ? replay->drained_ns : next_ns);
    }
}

static void arrive(struct replay *replay, const struct kept *kept)
{
    struct weir_detail detail;
    struct weir_decision decision;
    bool fill = replay->simulate->fill;
    struct weir_request request = {
        .rule = &replay->rule,
        .key = "",
        .cost_micro = kept->cost_micro,
        .operation = fill ? WEIR_FILL : WEIR_TAKE,
        .detail = &detail,
    };
    show_until(replay, kept->at_ns);
    weir_limiter_decide_at(replay->limiter, &request, &decision, 1, kept->at_ns);
    bool allowed = decision.verdict == WEIR_ALLOWED;
    bool spilled = fill && (detail.amount.numerator_high | detail.amount.numerator_low) != 0;
    double place = place_of(replay->range, replay->shown_ns);
    add_mark(replay->picture, (struct picture_mark){
                                  .at = place,
                                  .admitted = allowed && !spilled ? 1 : 0,
                                  .refused = !allowed || spilled ? 1 : 0,
                                  .full = fill && detail.full && kept->cost_micro > 0 ? 1 : 0,
                              });
    if (allowed && decision.delay_ns > 0) {
        uint64_t leaves_ns = kept->at_ns + (uint64_t)decision.delay_ns;
        add_mark(replay->picture,
                 (struct picture_mark){.at = place_of(replay->range, leaves_ns), .leaving = 1});
    }
    replay->drained_ns = kept->at_ns + (uint64_t)decision.reset_after_ns;
    show(replay, replay->shown_ns);
}

static bool draw_exactly(struct picture *picture, const struct simulate *simulate,
                         const struct lane *lane, struct picture_range range)
{
    const struct weir_limiter_config small = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                              .caller_clock = true};
    struct replay replay = {.simulate = simulate, .picture = picture, .range = range};
    if (weir_limiter_open(&replay.limiter, &small, NULL) != WEIR_OK) {
        return false;
    }
    weir_rule_init(&replay.rule, replay.limiter, &lane->rule.limit);
    replay.shown_ns = range.from_ns;
    show(&replay, range.from_ns);
    for (uint64_t i = 0; i < simulate->recording.count; i++) {
        arrive(&replay, &simulate->recording.kept[i]);
    }
    show_until(&replay, range.to_ns);
    weir_limiter_close(replay.limiter);
    return true;
}

/* ---- There were more than that: by bins ---- */

/* What is left at an instant of a level that goes down evenly. */
static double left_at(const struct bin *last, uint64_t last_ns, uint64_t at_ns)
{
    return last->drained_ns <= at_ns ? 0
                                     : last->level * (double)(last->drained_ns - at_ns)
                                           / (double)(last->drained_ns - last_ns);
}

/* The highest level in each bin, or what is left since the last arrival, going down evenly: also beyond
 * the last bin. */
static void draw_arriving(struct picture *picture, const struct bins *bins,
                          struct picture_range range)
{
    struct bin last = {.level = 0};
    uint64_t last_ns = 0;
    uint64_t width_ns = bins_width_ns(bins);
    for (size_t i = 0; i < BIN_COUNT; i++) {
        const struct bin *bin = &bins->bins[i];
        uint64_t begin_ns = bins->origin_ns + i * width_ns;
        if (begin_ns > range.to_ns) {
            break;
        }
        double begin = place_of(range, begin_ns);
        double end = place_of(range, begin_ns + width_ns);
        double level = fmax(bin->peak, left_at(&last, last_ns, begin_ns));
        add_point(picture, begin, level);
        add_point(picture, end, level);
        if (bin->admitted + bin->refused > 0) {
            add_mark(picture, (struct picture_mark){
                                  .at = begin,
                                  .width = end - begin,
                                  .admitted = (double)bin->admitted,
                                  .refused = (double)bin->refused,
                                  .full = (double)bin->full,
                              });
        }
        if (bin->drained_ns > last.drained_ns) {
            last = *bin;
            last_ns = begin_ns;
        }
    }
    uint64_t end_ns = bins->origin_ns + BIN_COUNT * width_ns;
    if (last.drained_ns > end_ns && last.drained_ns < range.to_ns) {
        add_point(picture, place_of(range, last.drained_ns), 0);
    }
    if (range.to_ns > end_ns) {
        add_point(picture, 1, left_at(&last, last_ns, range.to_ns));
    }
}

/* When those go who stood in line, as far as that is drawn. */
static void draw_leaving(struct picture *picture, const struct bins *bins,
                         struct picture_range range)
{
    uint64_t width_ns = bins_width_ns(bins);
    for (size_t i = 0; i < BIN_COUNT; i++) {
        uint64_t begin_ns = bins->origin_ns + i * width_ns;
        if (begin_ns >= range.to_ns) {
            break;
        }
        double begin = place_of(range, begin_ns);
        double end = place_of(range, begin_ns + width_ns);
        double whole = (double)width_ns / (double)(range.to_ns - range.from_ns);
        if (bins->bins[i].leaving > 0) {
            add_mark(picture, (struct picture_mark){
                                  .at = begin,
                                  .width = end - begin,
                                  .leaving = (double)bins->bins[i].leaving * (end - begin) / whole,
                              });
        }
    }
}

bool picture_draw(struct picture *picture, const struct simulate *simulate, const struct lane *lane,
                  struct picture_range range)
{
    picture->shows_level = !simulate->recording.has_keys;
    picture->capacity = picture->top = lane_capacity(lane);
    picture->point_count = picture->mark_count = 0;
    if (recording_is_exact(&simulate->recording)) {
        return draw_exactly(picture, simulate, lane, range);
    }
    draw_arriving(picture, &lane->arriving, range);
    draw_leaving(picture, &lane->leaving, range);
    return true;
}

/* ---- Columns ---- */

static size_t column_of(double at, size_t count)
{
    size_t column = (size_t)(at * (double)count);
    return column < count ? column : count - 1;
}

/* The highest level of one line in each column that it crosses: at one of its ends there. */
static void raise_columns(struct picture_column *columns, size_t count,
                          const struct picture_point *a, const struct picture_point *b)
{
    double length = b->at - a->at;
    for (size_t i = column_of(a->at, count); i <= column_of(b->at, count); i++) {
        double begin = fmax(a->at, (double)i / (double)count);
        double end = fmin(b->at, (double)(i + 1) / (double)count);
        double slope = length > 0 ? (b->level - a->level) / length : 0;
        double high =
            length > 0 ? fmax(a->level + slope * (begin - a->at), a->level + slope * (end - a->at))
                       : fmax(a->level, b->level);
        columns[i].level = fmax(columns[i].level, high);
    }
}

/* A mark's counts go to the columns that it lies in, to each by its part. */
static void spread_mark(struct picture_column *columns, size_t count,
                        const struct picture_mark *mark)
{
    double end = mark->at + mark->width;
    for (size_t i = column_of(mark->at, count); i <= column_of(end, count); i++) {
        double from = fmax(mark->at, (double)i / (double)count);
        double to = fmin(end, (double)(i + 1) / (double)count);
        double part = mark->width > 0 ? fmax(to - from, 0) / mark->width : 1;
        columns[i].admitted += part * mark->admitted;
        columns[i].refused += part * mark->refused;
        columns[i].full += part * mark->full;
        columns[i].leaving += part * mark->leaving;
    }
}

void picture_columns(const struct picture *picture, struct picture_column *columns, size_t count)
{
    memset(columns, 0, count * sizeof columns[0]);
    for (size_t i = 1; i < picture->point_count; i++) {
        raise_columns(columns, count, &picture->points[i - 1], &picture->points[i]);
    }
    for (size_t i = 0; i < picture->mark_count; i++) {
        spread_mark(columns, count, &picture->marks[i]);
    }
}

double picture_bar_s(const struct picture *picture, struct picture_range range)
{
    double range_s = (double)(range.to_ns - range.from_ns) / (double)NS_PER_S;
    double widest = 0; // the last one may be cut
    for (size_t i = 0; i < picture->mark_count; i++) {
        bool arrives = picture->marks[i].admitted + picture->marks[i].refused > 0;
        widest = fmax(widest, arrives ? picture->marks[i].width : 0);
    }
    return range_s * widest;
}
