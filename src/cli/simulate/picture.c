/* SPDX-License-Identifier: MIT */
#include "cli/simulate/picture.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/duration.h"

/* A drain is drawn to its end if that takes at most so many times as long as the arrivals did;
 * otherwise a fifth of their time is drawn. */
enum { DRAIN_SHOWN_MAX = 5 };

/* Falls between two samples that are drawn where they happen; any more are drawn as one at the end. */
enum { FALLS_MAX = 3 };
_Static_assert(KEPT_COUNT_MAX + (KEPT_COUNT_MAX + PICTURE_SAMPLES + 1) * (2 * FALLS_MAX + 2)
                   <= PICTURE_POINTS_MAX,
               "a point after each arrival, and two for each fall before");

static uint64_t last_drained_ns(const struct bins *bins)
{
    uint64_t drained_ns = 0;
    for (size_t i = 0; i < BIN_COUNT; i++) {
        uint64_t ns = bins->bins[i].drained_ns;
        drained_ns = ns > drained_ns ? ns : drained_ns;
    }
    return drained_ns;
}

struct picture_range picture_range(const struct simulate *simulate)
{
    const struct recording *recording = &simulate->recording;
    uint64_t span_ns = recording->latest_ns - recording->first_ns;
    uint64_t drained_ns = recording->latest_ns;
    for (size_t i = 0; i < simulate->lane_count; i++) {
        const struct lane *lane = &simulate->lanes[i];
        for (size_t j = 0; j < lane->list.count; j++) {
            uint64_t ns = last_drained_ns(course_bins(&lane->all, j));
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
            recording->latest_ns + simulate->lanes[0].all.arriving.unit_ns; // it is of many
    }
    range.to_ns += range.to_ns == range.from_ns; // never nothing at all
    return range;
}

/* True if a level of this kind stays as it is for a while, and then falls at an instant. */
static bool falls_at_once(enum weir_kind kind)
{
    switch (kind) {
    case WEIR_KIND_BUCKET:
    case WEIR_KIND_QUEUE:
    case WEIR_KIND_SLIDING: return false;
    case WEIR_KIND_STEPPED:
    case WEIR_KIND_FIXED:
    case WEIR_KIND_WINDOW: return true;
    }
    return false;
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

/* The numbers of the key whose level is drawn. */
static const struct weir_limit *limit_of(const struct picture *picture, size_t i)
{
    const struct weir_limit *own = picture->course->limits[i];
    return own != NULL ? own : &picture->scene.lane->tried[i].rule.limit;
}

/* ---- All arrivals are known: they come once more, and libweir is asked about times between ---- */

struct replay {
    const struct simulate *simulate;
    struct weir_limiter *limiter;
    struct weir_rule rules[LIMIT_LIST_COUNT_MAX]; // of the lane
    size_t count;
    size_t shown; // the limit whose level is drawn
    struct picture *picture;
    struct picture_range range;
    bool falls;        // the level stays until it falls, and does not slope
    uint64_t shown_ns; // so far
    double shown_level;
    uint64_t drained_ns; // when the bucket will be empty
};

static double level_at(const struct replay *replay, uint64_t at_ns)
{
    struct weir_detail detail;
    struct weir_decision unused;
    struct weir_request request = {.rule = &replay->rules[replay->shown],
                                   .key = "",
                                   .operation = WEIR_SHOW,
                                   .detail = &detail};
    weir_limiter_decide_at(replay->limiter, &request, &unused, 1, at_ns);
    return amount_value(&detail.amount);
}

static void show(struct replay *replay, uint64_t at_ns)
{
    replay->shown_level = level_at(replay, at_ns);
    replay->shown_ns = at_ns;
    add_point(replay->picture, place_of(replay->range, at_ns), replay->shown_level);
}

/* The first instant at which the level is not any more what it is now. Nothing comes until then, so it only falls.
 * To ask changes nothing, also if the time goes back. */
static uint64_t next_fall(const struct replay *replay, uint64_t fallen_ns)
{
    uint64_t same_ns = replay->shown_ns;
    while (fallen_ns - same_ns > 1) {
        uint64_t middle_ns = same_ns + (fallen_ns - same_ns) / 2;
        if (level_at(replay, middle_ns) < replay->shown_level) {
            fallen_ns = middle_ns;
        } else {
            same_ns = middle_ns;
        }
    }
    return fallen_ns;
}

/* On to the next sample, straight down at each fall on the way. */
static void show_falls(struct replay *replay, uint64_t next_ns)
{
    int falls = 0;
    while (replay->shown_ns < next_ns) {
        bool has_fall = level_at(replay, next_ns) < replay->shown_level;
        uint64_t at_ns = has_fall && falls < FALLS_MAX ? next_fall(replay, next_ns) : next_ns;
        add_point(replay->picture, place_of(replay->range, at_ns), replay->shown_level);
        show(replay, at_ns);
        falls++;
    }
}

/* Every kind of limit has its own way to drain: so the level is looked at in even steps, and at the
 * moment at which it is zero. What lies on a line is dropped again. */
static void show_until(struct replay *replay, uint64_t until_ns)
{
    uint64_t step_ns = (replay->range.to_ns - replay->range.from_ns) / PICTURE_SAMPLES + 1;
    while (replay->shown_ns < until_ns) {
        uint64_t left_ns = until_ns - replay->shown_ns;
        uint64_t next_ns = replay->shown_ns + (left_ns < step_ns ? left_ns : step_ns);
        if (replay->falls) {
            show_falls(replay, next_ns);
            continue;
        }
        bool drains = replay->drained_ns > replay->shown_ns && replay->drained_ns < next_ns;
        show(replay, drains ? replay->drained_ns : next_ns);
    }
}

/* Asks all limits of the lane about an arrival; *shown is what the one that is drawn said. Returns what they said
 * together. */
static struct weir_decision ask(const struct replay *replay, const struct kept *kept,
                                struct weir_decision *shown, struct weir_detail *detail,
                                int *binding)
{
    struct weir_request requests[LIMIT_LIST_COUNT_MAX];
    struct weir_decision decisions[LIMIT_LIST_COUNT_MAX];
    for (size_t i = 0; i < replay->count; i++) {
        requests[i] = (struct weir_request){
            .rule = &replay->rules[i],
            .key = "",
            .cost_micro = kept->cost_micro,
            .operation = replay->simulate->fill ? WEIR_FILL : WEIR_TAKE,
            .and_next = i + 1 < replay->count,
            .detail = i == replay->shown ? detail : NULL,
        };
    }
    weir_limiter_decide_at(replay->limiter, requests, decisions, replay->count, kept->at_ns);
    *shown = decisions[replay->shown];
    return weir_decision_of_all(decisions, replay->count, binding);
}

static void arrive(struct replay *replay, const struct kept *kept)
{
    struct weir_detail detail = {.full = false};
    struct weir_decision shown;
    int binding;
    bool fill = replay->simulate->fill;
    show_until(replay, kept->at_ns);
    struct weir_decision decision = ask(replay, kept, &shown, &detail, &binding);
    bool allowed = decision.verdict == WEIR_ALLOWED;
    bool spilled = fill && (detail.amount.numerator_high | detail.amount.numerator_low) != 0;
    bool refused = !allowed && (size_t)binding == replay->shown;
    double place = place_of(replay->range, replay->shown_ns);
    add_mark(replay->picture, (struct picture_mark){
                                  .at = place,
                                  .admitted = allowed && !spilled ? 1 : 0,
                                  .refused = refused || spilled ? 1 : 0,
                                  .full = fill && detail.full && kept->cost_micro > 0 ? 1 : 0,
                              });
    uint64_t leaves_ns = kept->at_ns + (uint64_t)decision.delay_ns;
    if (allowed && shown.delay_ns > 0 && leaves_ns <= replay->range.to_ns) {
        add_mark(replay->picture,
                 (struct picture_mark){.at = place_of(replay->range, leaves_ns), .leaving = 1});
    }
    replay->drained_ns = kept->at_ns + (uint64_t)shown.reset_after_ns;
    show(replay, replay->shown_ns);
}

static bool draw_exactly(struct picture *picture, const struct simulate *simulate,
                         const struct history *history, struct picture_range range)
{
    const struct lane *lane = picture->scene.lane;
    size_t shown = picture->scene.limit;
    const struct weir_limiter_config small = {.memory_bytes = WEIR_MEMORY_BYTES_MIN,
                                              .caller_clock = true};
    struct replay replay = {
        .simulate = simulate,
        .picture = picture,
        .range = range,
        .count = lane->list.count,
        .shown = shown,
        .falls = falls_at_once((enum weir_kind)limit_of(picture, shown)->kind),
    };
    if (weir_limiter_open(&replay.limiter, &small, NULL) != WEIR_OK) {
        return false;
    }
    for (size_t i = 0; i < lane->list.count; i++) {
        weir_rule_init_named(&replay.rules[i], replay.limiter, limit_of(picture, i), &i, sizeof i);
    }
    replay.shown_ns = range.from_ns;
    show(&replay, range.from_ns);
    for (uint64_t i = 0; i < history->count; i++) {
        arrive(&replay, &history->kept[i]);
    }
    show_until(&replay, range.to_ns);
    weir_limiter_close(replay.limiter);
    return true;
}

/* ---- There were more than that: by bins ---- */

/* What is left at an instant of a level that goes down evenly, or if it `stays`, all at once. */
static double left_at(const struct bin *last, uint64_t last_ns, uint64_t at_ns, bool stays)
{
    if (last->drained_ns <= at_ns) {
        return 0;
    }
    return stays ? last->level
                 : last->level * (double)(last->drained_ns - at_ns)
                       / (double)(last->drained_ns - last_ns);
}

/* The highest level in each bin, or what is left since the last arrival: going down evenly, but of a fixed limit
 * until its window ends. Also beyond the last bin. */
static void draw_arriving(struct picture *picture, struct picture_range range)
{
    const struct scene *scene = &picture->scene;
    const struct bins *bins = scene->shows_level ? course_bins(picture->course, scene->limit)
                                                 : &picture->course->arriving;
    bool stays = scene->lane->tried[scene->limit].rule.limit.kind == WEIR_KIND_FIXED;
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
        double level = fmax(bin->peak, left_at(&last, last_ns, begin_ns, stays));
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
        if (bin->drained_ns >= last.drained_ns) { // of a window that ends when it did, too
            last = *bin;
            last_ns = begin_ns;
        }
    }
    uint64_t end_ns = bins->origin_ns + BIN_COUNT * width_ns;
    if (last.drained_ns > end_ns && last.drained_ns <= range.to_ns) {
        double drained = place_of(range, last.drained_ns);
        if (stays) {
            add_point(picture, drained, last.level);
        }
        add_point(picture, drained, 0);
    }
    if (range.to_ns > end_ns) {
        add_point(picture, 1, left_at(&last, last_ns, range.to_ns, stays));
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

size_t picture_scenes(const struct simulate *simulate, const struct lane *lane,
                      struct scene scenes[SCENE_COUNT_MAX])
{
    bool has_keys = simulate->recording.has_keys;
    size_t count = 0;
    if (has_keys || lane_is_list(lane)) {
        scenes[count++] = (struct scene){.lane = lane};
    }
    for (size_t i = 0; i < lane->list.count && (!has_keys || lane->watched != NULL); i++) {
        scenes[count++] = (struct scene){
            .lane = lane,
            .shows_level = true,
            .watched = has_keys ? lane->watched : NULL,
            .limit = i,
        };
    }
    return count;
}

bool picture_draw(struct picture *picture, const struct simulate *simulate,
                  const struct scene *scene, struct picture_range range)
{
    const struct watched *watched = scene->watched;
    const struct history *history =
        watched != NULL ? &watched->history : &simulate->recording.history;
    picture->scene = *scene;
    picture->course = watched != NULL ? &watched->course : &scene->lane->all;
    picture->capacity = picture->top = capacity_value(limit_of(picture, scene->limit));
    picture->point_count = picture->mark_count = 0;
    if (scene->shows_level && history_is_whole(history)) {
        return draw_exactly(picture, simulate, history, range);
    }
    draw_arriving(picture, range);
    if (limit_of(picture, scene->limit)->kind == WEIR_KIND_QUEUE) {
        draw_leaving(picture, &picture->course->leaving, range);
    }
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

const char *picture_top_text(const struct simulate *simulate, double count, double seconds,
                             char text[AXIS_RATE_MAX])
{
    const struct recording *recording = &simulate->recording;
    bool is_instant =
        recording->first_ns == recording->latest_ns
        && simulate->lanes[0].all.arriving.unit_ns == 1; // a log of seconds has a rate
    if (!is_instant) {
        return axis_rate(count / seconds, text);
    }
    (void)snprintf(text, AXIS_RATE_MAX, "%" PRIu64, recording->count);
    return text;
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
