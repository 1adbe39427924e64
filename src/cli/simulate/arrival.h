/* SPDX-License-Identifier: MIT
 *
 * Arrivals, read from the lines of a recording: when somebody came, who, and for how much.
 *
 *     CSV       time[,key[,cost]], or the columns that a first line names
 *     common    address ident user [time] "request" status bytes
 *     combined  the same, then "referer" "agent"
 *
 * Pure: no I/O, no allocation; slices point into the line. */
#ifndef WEIR_CLI_SIMULATE_ARRIVAL_H
#define WEIR_CLI_SIMULATE_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

enum arrival_format { FORMAT_DETECT = 0, FORMAT_CSV, FORMAT_COMMON, FORMAT_COMBINED };

/* What of a line of an access log is the key. */
enum log_field { LOG_ADDRESS, LOG_USER, LOG_METHOD, LOG_PATH, LOG_STATUS, LOG_REFERER, LOG_AGENT };

enum { ARRIVAL_COLUMN_MAX = 64, ARRIVAL_NO_COLUMN = -1 };

/* How lines are read. Fill the first three, or leave them zero; arrival_begin() does the rest.
 *   format      FORMAT_DETECT: by the first line
 *   key         a column or a field by its name; "none": all lines are of one key; NULL: the column
 *               `key` of a CSV if there is one, the address of an access log
 *   unit_power  of plain numbers in a CSV: they count 10^unit_power ns */
struct arrival_reader {
    enum arrival_format format;
    const char *key;
    unsigned unit_power;
    bool has_key;
    bool names_others; // a header does, than time and cost
    enum log_field field;
    int time_column, key_column, cost_column;
};

/* `key_is_doubled`: quotes in the key are still as they stand in the line, each of them twice. */
struct arrival {
    uint64_t at_ns;
    uint64_t cost_micro;
    struct bytes key;
    bool key_is_doubled;
};

/* The first line of a recording, without the mark that some programs put in front of UTF-8. */
struct bytes arrival_first_line(struct bytes line);

/* Nothing to read: a blank line, or a comment that begins with #. */
bool arrival_is_blank(struct bytes line);

/* Looks at the first line that is not blank: which format, which columns. *why says what is wrong. */
enum arrival_begin {
    BEGIN_ARRIVAL, // go on with arrival_read() of this line
    BEGIN_HEADER,  // it names columns; go on with the next line
    BEGIN_UNKNOWN, // it is of no format; begin with the next line instead
    BEGIN_NEVER    // nothing can be read of this recording as it was asked for
};
enum arrival_begin arrival_begin(struct arrival_reader *reader, struct bytes line,
                                 const char **why);

/* True if a header names columns that could be the key, and none is, since nobody said which. */
static inline bool arrival_wants_key(const struct arrival_reader *reader)
{
    return reader->names_others && reader->key == NULL && reader->key_column == ARRIVAL_NO_COLUMN;
}

/* Reads one line. Returns NULL, or why it is none. */
const char *arrival_read(const struct arrival_reader *reader, struct bytes line,
                         struct arrival *arrival);

/* Makes one of two quotes in a key that has them doubled. Then it lies in `room`, which has as many bytes as the key,
 * and may be where that is. */
void arrival_undouble(struct arrival *arrival, char *room);

#endif
