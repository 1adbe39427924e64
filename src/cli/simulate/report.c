/* SPDX-License-Identifier: MIT
 *
 * What came of a simulation: for people, as JSON, and drawn. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/duration.h"
#include "cli/promise.h"
#include "cli/simulate/instant.h"
#include "cli/simulate/show.h"

/* A recording that starts later than this counts from 1970. */
#define EPOCH_NS_MIN (UINT64_C(10) * 365 * 86400 * NS_PER_S)

enum { SHORT_AMOUNT = 12 }; // characters; what is longer is rounded
enum { FULL_NOTE_MAX = 96 };

static const char *exact_text(uint64_t ns, char text[DURATION_TEXT_MAX])
{
    struct weir_amount amount = {.numerator_low = ns, .denominator_low = 1};
    return ns == 0 ? "0 s" : duration_print_exact(&amount, text);
}

/* A sum of costs in millionths, which may be beyond 64 bits. */
static const char *units_text(uint128 micro, char text[ABOUT_TEXT_MAX])
{
    struct weir_amount amount = amount_of(micro, WEIR_UNIT);
    (void)weir_amount_print(&amount, text);
    return text;
}

/* All that spilled; in whole units where more does not fit 128 bits. Returns whether that is exact. */
static bool spill_amount(const struct spill *spill, struct weir_amount *amount)
{
    uint128 all;
    if (spill->denominator == 0) { // nothing did
        *amount = amount_of(0, 1);
        return true;
    }
    bool is_too_much = __builtin_mul_overflow(spill->units, spill->denominator, &all)
                       || __builtin_add_overflow(all, spill->rest, &all);
    *amount = is_too_much ? amount_of(spill->units, 1) : amount_of(all, spill->denominator);
    return !spill->is_rounded && (!is_too_much || spill->rest == 0);
}

static void say_recording(const struct simulate *simulate)
{
    const struct recording *recording = &simulate->recording;
    char span[DURATION_TEXT_MAX];
    char from[DURATION_TEXT_MAX];
    bool is_epoch = recording->first_ns >= EPOCH_NS_MIN;
    (void)printf("%" PRIu64 " arrival%s in %s, from %s on\n", recording->count,
                 recording->count == 1 ? "" : "s",
                 duration_print_near(recording->latest_ns - recording->first_ns, span),
                 is_epoch ? instant_print(recording->first_ns, from)
                          : exact_text(recording->first_ns, from));
    if (simulate->columns[0] != '\0') {
        (void)printf("one key for all, for no column is called key; --key takes one of: %s\n",
                     simulate->columns);
    }
    if (recording->late_count > 0) {
        (void)printf("%" PRIu64
                     " of them had an older time than one before, by at most %s: they see"
                     " a fuller bucket\n",
                     recording->late_count, duration_print_near(recording->late_max_ns, span));
    }
    if (simulate->bad_count > 0) {
        (void)printf("%" PRIu64 " line%s could not be read and %s left out:\n", simulate->bad_count,
                     simulate->bad_count == 1 ? "" : "s", simulate->bad_count == 1 ? "is" : "are");
        for (uint64_t i = 0; i < simulate->bad_count && i < BAD_SHOWN_MAX; i++) {
            (void)printf("  line %" PRIu64 ": %s\n", simulate->bad[i].number, simulate->bad[i].why);
        }
        if (simulate->bad_count > BAD_SHOWN_MAX) {
            (void)printf("  and %" PRIu64 " more\n", simulate->bad_count - BAD_SHOWN_MAX);
        }
    }
}

/* Of all arrivals, and what they cost; and what is to be said of them. */
static void say_share(const struct simulate *simulate, const char *name, const struct share *share,
                      const char *note)
{
    char units[ABOUT_TEXT_MAX];
    double percent = (double)share->count * 100 / (double)simulate->recording.count;
    bool has_cost = simulate->has_costs && share->count > 0 && share->micro > 0;
    (void)printf("  %-10s %*" PRIu64 "  %5.1f %%", name, 10, share->count, percent);
    if (has_cost) {
        (void)printf("   of cost %s", units_text(share->micro, units));
    }
    (void)printf("%s%s\n", note[0] == '\0' ? "" : has_cost ? ", " : "   ", note);
}

/* Of those of the line above. */
static void say_part(const char *name, uint64_t count, const char *what, const char *more)
{
    if (count > 0) {
        (void)printf("  %-10s %*" PRIu64 "           %s%s\n", name, 10, count, what, more);
    }
}

/* Why there was no room. Only a window has events; where both memories were full, its lane may have met either. */
static const char *full_text(const struct simulate *simulate, const struct lane *lane)
{
    if (!lane->has_window || !simulate->found_events_full) {
        return "found the memory full of live buckets";
    }
    return simulate->found_buckets_full ? "found the memory for buckets full, or that for events"
                                        : "found the memory for events full";
}

static void say_unchecked(const struct simulate *simulate, const struct lane *lane)
{
    say_part(" unchecked", lane->all.tally.unchecked, full_text(simulate, lane),
             ", and passed; more: --memory");
}

static void say_admitted(const struct simulate *simulate, const struct lane *lane)
{
    const struct tally *tally = &lane->all.tally;
    char mean[DURATION_TEXT_MAX];
    char longest[DURATION_TEXT_MAX];
    say_share(simulate, "admitted", &tally->of[WEIR_ALLOWED], "");
    say_unchecked(simulate, lane);
    if (tally->delayed > 0) {
        uint64_t mean_ns = (uint64_t)(tally->delay_sum_ns / tally->delayed);
        (void)printf("  %-10s %*" PRIu64 "           by %s on average, %s at most\n", " delayed",
                     10, tally->delayed, duration_print_near(mean_ns, mean),
                     duration_print_near(tally->delay_max_ns, longest));
    }
}

/* Which limits of a list it was. */
static void say_by(const struct lane *lane, enum weir_verdict verdict)
{
    for (size_t i = 0; lane_is_list(lane) && i < lane->list.count; i++) {
        say_part("", lane->all.tally.by[i][verdict], "by ", lane->tried[i].text);
    }
}

/* Whoever was not let in, by what happened to them. */
static void say_turned_away(const struct simulate *simulate, const struct lane *lane)
{
    char full[FULL_NOTE_MAX];
    (void)snprintf(full, sizeof full, "%s; more: --memory", full_text(simulate, lane));
    const struct {
        enum weir_verdict verdict;
        const char *name, *note;
    } kinds[] = {
        {WEIR_LIMITED, "refused", ""},
        {WEIR_NEVER, "never", ""},
        {WEIR_BLOCKED, "blocked", "while their key was locked out"},
        {WEIR_FAILED, "no room", full},
    };
    const struct tally *tally = &lane->all.tally;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct share *share = &tally->of[kinds[i].verdict];
        bool always = kinds[i].verdict == WEIR_LIMITED && !simulate->fill;
        if (share->count == 0 && !always) {
            continue;
        }
        say_share(simulate, kinds[i].name, share, kinds[i].note);
        if (kinds[i].verdict == WEIR_NEVER) {
            say_part("", share->count - tally->not_whole, "cost more than the capacity", "");
            say_part("", tally->not_whole, "cost no whole number, and the limit counts whole units",
                     "");
        }
        say_by(lane, kinds[i].verdict);
    }
}

static void say_filled(const struct simulate *simulate, const struct lane *lane)
{
    const struct tally *tally = &lane->all.tally;
    struct weir_amount spill;
    char text[DURATION_TEXT_MAX];
    say_share(simulate, "filled", &tally->of[WEIR_ALLOWED], "");
    say_unchecked(simulate, lane);
    if (tally->spilled > 0) {
        char about[ABOUT_TEXT_MAX];
        bool is_exact = spill_amount(&tally->spill, &spill);
        bool is_long = weir_amount_print(&spill, about) > SHORT_AMOUNT;
        if (is_long || strchr(about, '/') != NULL) {
            (void)amount_print_about(&spill, about);
        }
        bool says_about = is_exact || strncmp(about, "about", strlen("about")) == 0;
        (void)printf("  %-10s %*" PRIu64 "           %s%s in all\n", " spilled", 10, tally->spilled,
                     says_about ? "" : "about ", about);
    }
    (void)printf("  %-10s %*" PRIu64, " full", 10, tally->full);
    bool is_epoch = simulate->recording.first_ns >= EPOCH_NS_MIN;
    for (uint64_t i = 0; i < tally->full && i < FULL_SHOWN_MAX; i++) {
        uint64_t origin_ns = is_epoch ? simulate->recording.first_ns : 0;
        uint64_t at_ns = tally->full_at_ns[i] > origin_ns ? tally->full_at_ns[i] - origin_ns : 0;
        (void)printf("%s%s", i == 0 ? "           at " : ", ", exact_text(at_ns, text));
    }
    (void)puts(tally->full > FULL_SHOWN_MAX ? ", .." : "");
}

static void say_worst(const struct simulate *simulate, const struct lane *lane)
{
    const struct worst_key *sorted[WORST_SHOWN_MAX];
    size_t count = worst_list(&lane->worst, sorted, WORST_SHOWN_MAX);
    if (count == 0 || !simulate->recording.has_keys) {
        return;
    }
    (void)printf("  %s most often:\n", lane_missed_words(simulate, lane)->word);
    for (size_t i = 0; i < count; i++) {
        char text[KEY_TEXT_MAX];
        key_print(sorted[i]->text, sorted[i]->length, text);
        (void)printf("  %*" PRIu64 "  %s", 21, sorted[i]->count, text);
        if (sorted[i]->error > 0) {
            (void)printf("  (or up to %" PRIu64 " fewer)", sorted[i]->error);
        }
        (void)putchar('\n');
    }
}

static void say_scene(const struct scene *scene)
{
    (void)printf("\n%*s%s", 11, "", scene->shows_level ? "level" : "arrivals");
    if (scene->watched != NULL) {
        (void)printf(" of %s%s", scene->watched->key.text, scene->watched->why);
    }
    if (scene_is_of_list(scene)) {
        const char *between = scene->watched != NULL && scene->watched->why[0] != '\0' ? "," : "";
        (void)printf("%s under %s", between, scene->lane->tried[scene->limit].text);
    }
    (void)putchar('\n');
}

static void say_pictures(const struct simulate *simulate, const struct lane *lane,
                         struct picture *picture, struct picture_range range)
{
    struct scene scenes[SCENE_COUNT_MAX];
    size_t count = picture_scenes(simulate, lane, scenes);
    for (size_t i = 0; i < count; i++) {
        if (picture_draw(picture, simulate, &scenes[i], range)) {
            say_scene(&scenes[i]);
            plot_print(simulate, picture, range);
        }
    }
}

/* What a name stands for. */
static void say_names(const struct lane *lane)
{
    for (size_t i = 0; i < lane->list.count; i++) {
        const struct named_limit *named = lane->tried[i].named;
        if (named != NULL) {
            (void)printf("  %s is %.*s", named->name, (int)named->usual.words.length,
                         named->usual.words.at);
            if (named->override_count > 0) {
                (void)printf(", with %zu override%s", named->override_count,
                             named->override_count == 1 ? "" : "s");
            }
            (void)puts(named->is_shadow ? "; in shadow mode, but here it refuses" : "");
        }
    }
}

static void say_lane(const struct simulate *simulate, const struct lane *lane,
                     struct picture *picture, struct picture_range range)
{
    struct colours colours = colours_of_output();
    (void)printf("\n%s%s%s\n", colours.bold, lane->text, colours.plain);
    say_names(lane);
    if (simulate->fill) {
        say_filled(simulate, lane);
    } else {
        say_admitted(simulate, lane);
    }
    say_turned_away(simulate, lane);
    say_worst(simulate, lane);
    if (picture != NULL) {
        say_pictures(simulate, lane, picture, range);
    }
}

void simulate_say(const struct simulate *simulate)
{
    struct picture *picture = malloc(sizeof *picture); // without it there are only numbers
    struct picture_range range = picture_range(simulate);
    say_recording(simulate);
    for (size_t i = 0; i < simulate->lane_count; i++) {
        say_lane(simulate, &simulate->lanes[i], picture, range);
    }
    if (simulate->recording.has_keys && simulate->lanes[0].watched == NULL) {
        (void)puts("\nThe level of one key: --of KEY, or a file that can be read twice.");
    }
    free(picture);
}

/* ---- SVG ---- */

static size_t count_panels(const struct simulate *simulate)
{
    struct scene scenes[SCENE_COUNT_MAX];
    size_t count = 0;
    for (size_t i = 0; i < simulate->lane_count; i++) {
        count += picture_scenes(simulate, &simulate->lanes[i], scenes);
    }
    return count;
}

static bool draw_lane(struct svg *svg, const struct lane *lane, struct picture *picture)
{
    struct scene scenes[SCENE_COUNT_MAX];
    size_t count = picture_scenes(svg->simulate, lane, scenes);
    bool drawn = true;
    for (size_t i = 0; i < count && drawn; i++) {
        drawn = picture_draw(picture, svg->simulate, &scenes[i], svg->range);
        if (drawn) {
            svg_panel(svg, picture);
        }
    }
    return drawn;
}

int simulate_draw(const struct simulate *simulate)
{
    struct picture *picture = malloc(sizeof *picture);
    FILE *file = picture != NULL ? fopen(simulate->svg_path, "we") : NULL;
    bool drawn = file != NULL;
    if (drawn) {
        struct svg svg = {.file = file, .simulate = simulate, .range = picture_range(simulate)};
        svg_begin(&svg, count_panels(simulate));
        for (size_t i = 0; i < simulate->lane_count && drawn; i++) {
            drawn = draw_lane(&svg, &simulate->lanes[i], picture);
        }
        svg_end(&svg);
        drawn = !ferror(file) && drawn;
        drawn = fclose(file) == 0 && drawn;
    }
    free(picture);
    if (!drawn) {
        complain(simulate->command, "%s: %s", simulate->svg_path, strerror(errno));
    }
    return drawn ? CLI_DONE : CLI_FAILED;
}

/* ---- JSON ---- */

/* A cost in units, exactly, as a string: a number of JSON would be rounded. */
static json_t *json_units(uint128 micro)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    struct weir_amount amount = amount_of(micro, WEIR_UNIT);
    (void)weir_amount_print(&amount, text);
    return json_string(text);
}

static json_t *json_worst(const struct lane *lane)
{
    const struct worst_key *sorted[WORST_SHOWN_MAX];
    size_t count = worst_list(&lane->worst, sorted, WORST_SHOWN_MAX);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct worst_key *key = sorted[i];
        size_t length = key->length < WORST_KEY_BYTES ? key->length : WORST_KEY_BYTES;
        json_t *name = json_stringn(key->text, length);
        if (name == NULL) { // no UTF-8
            char text[KEY_TEXT_MAX];
            key_print(key->text, key->length, text);
            name = json_string(text);
        }
        json_array_append_new(list,
                              json_pack("{so sI sI}", "key", name, "count", (json_int_t)key->count,
                                        "too_high_at_most", (json_int_t)key->error));
    }
    return list;
}

static json_t *json_fills(const struct tally *tally)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    struct weir_amount spill;
    json_t *full_at = json_array();
    bool is_exact = spill_amount(&tally->spill, &spill);
    (void)weir_amount_print(&spill, text);
    for (uint64_t i = 0; i < tally->full && i < FULL_SHOWN_MAX; i++) {
        json_array_append_new(full_at, json_integer((json_int_t)tally->full_at_ns[i]));
    }
    return json_pack("{sI so sI ss sb sI so}", "filled", (json_int_t)tally->of[WEIR_ALLOWED].count,
                     "cost_filled", json_units(tally->of[WEIR_ALLOWED].micro), "spilled",
                     (json_int_t)tally->spilled, "spill", text, "spill_is_exact", is_exact, "full",
                     (json_int_t)tally->full, "full_at_ns", full_at);
}

static json_t *json_takes(const struct tally *tally)
{
    uint128 delayed = tally->delayed > 0 ? tally->delayed : 1;
    const struct share *admitted = &tally->of[WEIR_ALLOWED];
    const struct share *refused = &tally->of[WEIR_LIMITED];
    return json_pack("{sI so sI so sI sI sI}", "admitted", (json_int_t)admitted->count,
                     "cost_admitted", json_units(admitted->micro), "refused",
                     (json_int_t)refused->count, "cost_refused", json_units(refused->micro),
                     "delayed", (json_int_t)tally->delayed, "delay_mean_ns",
                     (json_int_t)(tally->delay_sum_ns / delayed), "delay_max_ns",
                     (json_int_t)tally->delay_max_ns);
}

/* What else can happen than to be let in, or refused. */
static json_t *json_others(const struct tally *tally)
{
    const struct share *never = &tally->of[WEIR_NEVER];
    const struct share *blocked = &tally->of[WEIR_BLOCKED];
    const struct share *no_room = &tally->of[WEIR_FAILED];
    return json_pack("{sI so sI sI so sI so sI}", "never", (json_int_t)never->count, "cost_never",
                     json_units(never->micro), "not_whole", (json_int_t)tally->not_whole, "blocked",
                     (json_int_t)blocked->count, "cost_blocked", json_units(blocked->micro),
                     "no_room", (json_int_t)no_room->count, "cost_no_room",
                     json_units(no_room->micro), "unchecked", (json_int_t)tally->unchecked);
}

static json_t *json_each(const struct lane *lane)
{
    json_t *list = json_array();
    for (size_t i = 0; i < lane->list.count; i++) {
        const uint64_t *by = lane->all.tally.by[i];
        json_array_append_new(list, json_pack("{ss sI sI sI sI}", "limit", lane->tried[i].text,
                                              "refused", (json_int_t)by[WEIR_LIMITED], "never",
                                              (json_int_t)by[WEIR_NEVER], "blocked",
                                              (json_int_t)by[WEIR_BLOCKED], "no_room",
                                              (json_int_t)by[WEIR_FAILED]));
    }
    return list;
}

static json_t *json_lane(const struct simulate *simulate, const struct lane *lane)
{
    const struct tally *tally = &lane->all.tally;
    json_t *object = json_pack("{ss}", "limit", lane->text);
    json_object_update_new(object, simulate->fill ? json_fills(tally) : json_takes(tally));
    json_object_update_new(object, json_others(tally));
    json_object_set_new(object, "worst", json_worst(lane));
    if (lane_is_list(lane)) {
        json_object_set_new(object, "limits", json_each(lane));
    }
    return object;
}

/* Which column, or field of a log, the keys are from. */
static json_t *json_key(const struct arrival_reader *reader)
{
    bool is_csv = reader->format == FORMAT_CSV;
    if (!reader->has_key || (is_csv && reader->key_column == ARRIVAL_NO_COLUMN)) {
        return json_null();
    }
    return json_string(reader->key != NULL ? reader->key : is_csv ? "key" : "address");
}

int simulate_say_json(const struct simulate *simulate)
{
    const struct recording *recording = &simulate->recording;
    json_t *bad = json_array();
    json_t *limits = json_array();
    for (uint64_t i = 0; i < simulate->bad_count && i < BAD_SHOWN_MAX; i++) {
        json_array_append_new(bad, json_pack("{sI ss}", "line", (json_int_t)simulate->bad[i].number,
                                             "why", simulate->bad[i].why));
    }
    for (size_t i = 0; i < simulate->lane_count; i++) {
        json_array_append_new(limits, json_lane(simulate, &simulate->lanes[i]));
    }
    json_t *root = json_pack(
        "{sI so sI sI sI sI sI so so}", "arrivals", (json_int_t)recording->count, "key",
        json_key(&simulate->reader), "first_ns", (json_int_t)recording->first_ns, "latest_ns",
        (json_int_t)recording->latest_ns, "late", (json_int_t)recording->late_count, "late_max_ns",
        (json_int_t)recording->late_max_ns, "lines_left_out", (json_int_t)simulate->bad_count,
        "first_left_out", bad, "limits", limits);
    bool written = root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    json_decref(root);
    if (!written) {
        complain(simulate->command, "out of memory");
        return CLI_FAILED;
    }
    (void)putchar('\n');
    return CLI_DONE;
}
