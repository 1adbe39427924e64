/* SPDX-License-Identifier: MIT
 *
 * The one key whose level is drawn where a recording has several. Who was turned away most often is known at the
 * end only, and what went before is not kept, for it has no bound: so a file is read once more, and a pipe, which
 * cannot be, has to be told the key in advance. */
#include <stdlib.h>
#include <string.h>

#include "cli/simulate/simulate.h"
#include "core/utf8.h"
#include "platform/siphash.h"

/* Whatever moves the cursor, turns the writing around, or is no character for XML. */
static bool is_printable(uint32_t code)
{
    bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool is_format = code == 0xad || code == 0x61c || (code >= 0x200b && code <= 0x200f)
                     || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f)
                     || code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb);
    bool is_none = (code & 0xfffe) == 0xfffe || (code >= 0xfdd0 && code <= 0xfdef);
    return !is_control && !is_format && !is_none;
}

/* Up to the last whole character of the first bytes of a key that has more. */
static size_t whole_length(const char *key)
{
    for (size_t back = 1; back <= 3; back++) {
        unsigned char c = (unsigned char)key[WORST_KEY_BYTES - back];
        size_t length = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        if (c < 0x80 || c >= 0xc0) {
            return WORST_KEY_BYTES - (length > back ? back : 0);
        }
    }
    return WORST_KEY_BYTES;
}

void key_print(const char *key, size_t length, char text[KEY_TEXT_MAX])
{
    bool is_cut = length > WORST_KEY_BYTES;
    size_t shown = is_cut ? whole_length(key) : length;
    char *end = text;
    for (size_t i = 0; i < shown;) {
        size_t bytes = utf8_length((struct bytes){key + i, shown - i});
        if (bytes == 0 || !is_printable(utf8_code(key + i, bytes))) {
            *end++ = '?';
        } else {
            memcpy(end, key + i, bytes);
            end += bytes;
        }
        i += bytes > 0 ? bytes : 1;
    }
    (void)strcpy(end, is_cut ? "..." : length == 0 ? "\"\"" : "");
}

/* In no lane yet. */
static bool watch_key(struct lane *lane, const struct shown_key *key, const char *why)
{
    lane->watched = calloc(1, sizeof *lane->watched);
    if (lane->watched == NULL || !course_init(&lane->watched->course, lane)) {
        return false;
    }
    lane->watched->key = *key;
    lane->watched->why = why;
    return true;
}

bool watch_begin(struct simulate *simulate)
{
    if (simulate->of == NULL) {
        return true;
    }
    size_t length = strlen(simulate->of);
    struct shown_key key = {.hash = siphash13(simulate->hash_key, simulate->of, length)};
    key_print(simulate->of, length, key.text);
    bool done = true;
    for (size_t i = 0; i < simulate->lane_count && done; i++) {
        done = watch_key(&simulate->lanes[i], &key, "");
    }
    return done;
}

bool watch_choose(struct simulate *simulate)
{
    bool done = true;
    for (size_t i = 0; i < simulate->lane_count && done; i++) {
        struct lane *lane = &simulate->lanes[i];
        const struct worst_key *worst;
        if (worst_list(&lane->worst, &worst, 1) == 0) {
            done = watch_key(lane, &lane->closest, ", closest to the capacity");
        } else {
            struct shown_key key = {.hash = worst->hash};
            key_print(worst->text, worst->length, key.text);
            done = watch_key(lane, &key, lane_missed_words(simulate, lane)->most_often);
        }
        if (done) {
            const struct bins *bins = &lane->all.arriving;
            course_begin(&lane->watched->course, lane, bins->origin_ns, bins->unit_ns);
        }
    }
    return done;
}

void watch_forget(struct simulate *simulate)
{
    for (size_t i = 0; i < simulate->lane_count; i++) {
        struct lane *lane = &simulate->lanes[i];
        if (lane->watched != NULL) {
            course_fini(&lane->watched->course);
        }
        free(lane->watched);
        lane->watched = NULL;
    }
}

void watch_note(const struct simulate *simulate, const struct lane *lane,
                const struct arrival *arrival, const struct outcome *outcome)
{
    struct watched *watched = lane->watched;
    history_add(&watched->history, arrival->at_ns, arrival->cost_micro);
    (void)course_note(simulate, lane, &watched->course, true, arrival, outcome);
}
