/* SPDX-License-Identifier: MIT
 *
 * Every decision as a line of CSV (RFC 4180), for other programs: one per arrival and limit. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/simulate/simulate.h"

enum { BUFFER_BYTES = 1 << 18 };

static const char HEADER[] =
    "limit,time_ns,key,cost,verdict,remaining,retry_after_ns,reset_after_ns,delay_ns";

int decisions_open(struct simulate *simulate)
{
    if (simulate->decisions_path == NULL) {
        return CLI_DONE;
    }
    simulate->decisions = fopen(simulate->decisions_path, "we");
    if (simulate->decisions == NULL) {
        complain(simulate->command, "%s: %s", simulate->decisions_path, strerror(errno));
        return CLI_FAILED;
    }
    (void)setvbuf(simulate->decisions, NULL, _IOFBF, BUFFER_BYTES);
    (void)fprintf(simulate->decisions, "%s%s\n", HEADER, simulate->fill ? ",spill,full" : "");
    return CLI_DONE;
}

/* In quotes where it needs them, and its own quotes doubled, unless the recording has done so. */
static void write_key(FILE *file, const struct arrival *arrival)
{
    const struct bytes key = arrival->key;
    bool is_plain = memchr(key.at, ',', key.length) == NULL
                    && memchr(key.at, '"', key.length) == NULL
                    && memchr(key.at, ' ', key.length) == NULL;
    if (is_plain) {
        (void)fwrite(key.at, 1, key.length, file);
        return;
    }
    (void)fputc('"', file);
    for (size_t i = 0; i < key.length; i++) {
        if (key.at[i] == '"' && !arrival->key_is_quoted) {
            (void)fputc('"', file);
        }
        (void)fputc(key.at[i], file);
    }
    (void)fputc('"', file);
}

void decisions_write(const struct simulate *simulate, const struct lane *lane,
                     const struct arrival *arrival, const struct weir_decision *decision,
                     const struct weir_detail *detail)
{
    FILE *file = simulate->decisions;
    char cost[MICRO_TEXT_MAX];
    (void)fprintf(file, "%s,%" PRIu64 ",", lane->text, arrival->at_ns);
    write_key(file, arrival);
    (void)fprintf(file, ",%s,%s,%" PRIu64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
                  print_micro(arrival->cost_micro, cost), weir_verdict_word(decision->verdict),
                  decision->remaining, decision->retry_after_ns, decision->reset_after_ns,
                  decision->delay_ns);
    if (simulate->fill) {
        char spill[WEIR_AMOUNT_TEXT_MAX];
        (void)weir_amount_print(&detail->amount, spill);
        (void)fprintf(file, ",%s,%s", spill, detail->full ? "true" : "false");
    }
    (void)fputc('\n', file);
}

int decisions_close(struct simulate *simulate)
{
    if (simulate->decisions == NULL) {
        return CLI_DONE;
    }
    bool failed = ferror(simulate->decisions) != 0;
    failed |= fclose(simulate->decisions) != 0;
    simulate->decisions = NULL;
    if (failed) {
        complain(simulate->command, "%s: %s", simulate->decisions_path, strerror(errno));
    }
    return failed ? CLI_FAILED : CLI_DONE;
}
