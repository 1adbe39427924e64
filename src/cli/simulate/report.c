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

/* All that spilled: exactly, or in whole units where that does not fit 128 bits. False if nothing did. */
static bool spill_amount(const struct tally *tally, struct weir_amount *amount)
{
    uint128 all;
    bool is_too_much = __builtin_mul_overflow(tally->spill_units, tally->spill_denominator, &all)
                       || __builtin_add_overflow(all, tally->spill_rest, &all);
    *amount =
        is_too_much ? amount_of(tally->spill_units, 1) : amount_of(all, tally->spill_denominator);
    return tally->spilled > 0;
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

static void say_count(const struct simulate *simulate, const char *name, uint64_t count,
                      uint128 micro)
{
    char units[ABOUT_TEXT_MAX];
    double percent = (double)count * 100 / (double)simulate->recording.count;
    (void)printf("  %-10s %*" PRIu64 "  %5.1f %%", name, 10, count, percent);
    if (simulate->has_costs && count > 0 && micro > 0) {
        (void)printf("   of cost %s", units_text(micro, units));
    }
    (void)putchar('\n');
}

static void say_taken(const struct simulate *simulate, const struct tally *tally)
{
    char mean[DURATION_TEXT_MAX];
    char longest[DURATION_TEXT_MAX];
    say_count(simulate, "admitted", tally->admitted, tally->admitted_micro);
    if (tally->delayed > 0) {
        uint64_t mean_ns = (uint64_t)(tally->delay_sum_ns / tally->delayed);
        (void)printf("  %-10s %*" PRIu64 "           by %s on average, %s at most\n", " delayed",
                     10, tally->delayed, duration_print_near(mean_ns, mean),
                     duration_print_near(tally->delay_max_ns, longest));
    }
    say_count(simulate, "refused", tally->refused + tally->never, tally->refused_micro);
    if (tally->never > 0) {
        (void)printf("  %-10s %*" PRIu64 "           cost more than the capacity\n", " never", 10,
                     tally->never);
    }
}

static void say_filled(const struct simulate *simulate, const struct tally *tally)
{
    struct weir_amount spill;
    char text[DURATION_TEXT_MAX];
    say_count(simulate, "filled", tally->admitted, tally->admitted_micro);
    if (spill_amount(tally, &spill)) {
        char about[ABOUT_TEXT_MAX];
        if (weir_amount_print(&spill, about) > SHORT_AMOUNT) {
            (void)amount_print_about(&spill, about);
        }
        (void)printf("  %-10s %*" PRIu64 "           %s in all\n", " spilled", 10, tally->spilled,
                     about);
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

/* Keys are strangers' bytes, and their terminal codes are none of ours. */
static void clean_key(const struct worst_key *key, char text[WORST_KEY_BYTES + 4])
{
    size_t length = key->length < WORST_KEY_BYTES ? key->length : WORST_KEY_BYTES;
    for (size_t i = 0; i < length; i++) {
        text[i] = key->text[i] >= ' ' && key->text[i] <= '~' ? key->text[i] : '?';
    }
    (void)strcpy(text + length, key->length > WORST_KEY_BYTES ? "..." : "");
}

static void say_worst(const struct simulate *simulate, const struct lane *lane)
{
    const struct worst_key *sorted[WORST_SHOWN_MAX];
    size_t count = worst_list(&lane->worst, sorted, WORST_SHOWN_MAX);
    if (count == 0 || !simulate->recording.has_keys) {
        return;
    }
    (void)printf("  %s most often:\n", simulate->fill ? "spilled" : "refused");
    for (size_t i = 0; i < count; i++) {
        char text[WORST_KEY_BYTES + 4];
        clean_key(sorted[i], text);
        (void)printf("  %*" PRIu64 "  %s", 21, sorted[i]->count, text);
        if (sorted[i]->error > 0) {
            (void)printf("  (or up to %" PRIu64 " fewer)", sorted[i]->error);
        }
        (void)putchar('\n');
    }
}

static void say_lane(const struct simulate *simulate, const struct lane *lane,
                     struct picture *picture, struct picture_range range)
{
    struct colours colours = colours_of_output();
    const struct tally *tally = &lane->tally;
    (void)printf("\n%s%s%s\n", colours.bold, lane->text, colours.plain);
    if (simulate->fill) {
        say_filled(simulate, tally);
    } else {
        say_taken(simulate, tally);
    }
    if (tally->blocked > 0) {
        (void)printf("  %-10s %*" PRIu64 "           while their key was locked out\n", "blocked",
                     10, tally->blocked);
    }
    if (tally->no_room > 0) {
        (void)printf("  %-10s %*" PRIu64 "           found the memory full of live buckets; more:"
                     " --memory\n",
                     "no room", 10, tally->no_room);
    }
    say_worst(simulate, lane);
    if (picture != NULL && picture_draw(picture, simulate, lane, range)) {
        (void)printf("\n%*s%s\n", 11, "", picture->shows_level ? "level" : "arrivals");
        plot_print(simulate, picture, range);
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
    free(picture);
}

/* ---- SVG ---- */

int simulate_draw(const struct simulate *simulate)
{
    struct picture *picture = malloc(sizeof *picture);
    struct picture_range range = picture_range(simulate);
    FILE *file = picture != NULL ? fopen(simulate->svg_path, "we") : NULL;
    bool drawn = file != NULL;
    if (drawn) {
        svg_begin(file, simulate->lane_count);
        for (size_t i = 0; i < simulate->lane_count && drawn; i++) {
            drawn = picture_draw(picture, simulate, &simulate->lanes[i], range);
            if (drawn) {
                svg_panel(file, i, simulate, &simulate->lanes[i], picture, range);
            }
        }
        svg_end(file);
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
            char text[WORST_KEY_BYTES + 4];
            clean_key(key, text);
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
    char text[WEIR_AMOUNT_TEXT_MAX] = "0";
    struct weir_amount spill;
    json_t *full_at = json_array();
    if (spill_amount(tally, &spill)) {
        (void)weir_amount_print(&spill, text);
    }
    for (uint64_t i = 0; i < tally->full && i < FULL_SHOWN_MAX; i++) {
        json_array_append_new(full_at, json_integer((json_int_t)tally->full_at_ns[i]));
    }
    return json_pack("{sI so sI ss sI so}", "filled", (json_int_t)tally->admitted, "cost_filled",
                     json_units(tally->admitted_micro), "spilled", (json_int_t)tally->spilled,
                     "spill", text, "full", (json_int_t)tally->full, "full_at_ns", full_at);
}

static json_t *json_takes(const struct tally *tally)
{
    uint128 delayed = tally->delayed > 0 ? tally->delayed : 1;
    return json_pack("{sI so sI sI so sI sI sI}", "admitted", (json_int_t)tally->admitted,
                     "cost_admitted", json_units(tally->admitted_micro), "refused",
                     (json_int_t)tally->refused, "never", (json_int_t)tally->never, "cost_refused",
                     json_units(tally->refused_micro), "delayed", (json_int_t)tally->delayed,
                     "delay_mean_ns", (json_int_t)(tally->delay_sum_ns / delayed), "delay_max_ns",
                     (json_int_t)tally->delay_max_ns);
}

static json_t *json_lane(const struct simulate *simulate, const struct lane *lane)
{
    json_t *object = json_pack("{ss}", "limit", lane->text);
    json_object_update_new(object,
                           simulate->fill ? json_fills(&lane->tally) : json_takes(&lane->tally));
    json_object_set_new(object, "blocked", json_integer((json_int_t)lane->tally.blocked));
    json_object_set_new(object, "no_room", json_integer((json_int_t)lane->tally.no_room));
    json_object_set_new(object, "worst", json_worst(lane));
    return object;
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
        "{sI sI sI sI sI sI so so}", "arrivals", (json_int_t)recording->count, "first_ns",
        (json_int_t)recording->first_ns, "latest_ns", (json_int_t)recording->latest_ns, "late",
        (json_int_t)recording->late_count, "late_max_ns", (json_int_t)recording->late_max_ns,
        "lines_left_out", (json_int_t)simulate->bad_count, "first_left_out", bad, "limits", limits);
    bool written = root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    json_decref(root);
    if (!written) {
        complain(simulate->command, "out of memory");
        return CLI_FAILED;
    }
    (void)putchar('\n');
    return CLI_DONE;
}
