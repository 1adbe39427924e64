/* SPDX-License-Identifier: MIT
 *
 * Every decision as a line of CSV (RFC 4180), for other programs: one per arrival and limit. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/simulate/simulate.h"

enum { BUFFER_BYTES = 1 << 18 };

static const char HEADER[] =
    "limit,time_ns,key,cost,verdict,remaining,retry_after_ns,reset_after_ns,delay_ns";

static bool has_list(const struct simulate *simulate)
{
    return simulate->limit_count > simulate->lane_count;
}

int decisions_open(struct simulate *simulate)
{
    if (simulate->decisions_path == NULL) {
        return CLI_DONE;
    }
    int fd = open(simulate->decisions_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    simulate->decisions = fd >= 0 ? fdopen(fd, "we") : NULL;
    if (simulate->decisions == NULL) {
        complain(simulate->command, "%s: %s", simulate->decisions_path, strerror(errno));
        return CLI_FAILED;
    }
    (void)setvbuf(simulate->decisions, NULL, _IOFBF, BUFFER_BYTES);
    return CLI_DONE;
}

void decisions_begin(const struct simulate *simulate)
{
    if (simulate->decisions == NULL) {
        return;
    }
    if (ftruncate(fileno(simulate->decisions), 0) != 0) {
        errno = 0; // a pipe or a device holds nothing
    }
    (void)fprintf(simulate->decisions, "%s%s%s\n", HEADER, simulate->fill ? ",spill,full" : "",
                  has_list(simulate) ? ",refused_by" : "");
}

/* In quotes where it needs them, and its own quotes doubled. */
static void write_key(FILE *file, struct bytes key)
{
    bool is_plain = memchr(key.at, ',', key.length) == NULL
                    && memchr(key.at, '"', key.length) == NULL
                    && memchr(key.at, ' ', key.length) == NULL;
    if (is_plain) {
        (void)fwrite(key.at, 1, key.length, file);
        return;
    }
    (void)fputc('"', file);
    for (size_t i = 0; i < key.length; i++) {
        if (key.at[i] == '"') {
            (void)fputc('"', file);
        }
        (void)fputc(key.at[i], file);
    }
    (void)fputc('"', file);
}

void decisions_write(const struct simulate *simulate, const struct lane *lane,
                     const struct arrival *arrival, const struct outcome *outcome)
{
    FILE *file = simulate->decisions;
    const struct weir_decision *decision = outcome->whole;
    char cost[MICRO_TEXT_MAX];
    const char *quote = lane_is_list(lane) ? "\"" : ""; // for its commas
    (void)fprintf(file, "%s%s%s,%" PRIu64 ",", quote, lane->text, quote, arrival->at_ns);
    write_key(file, arrival->key);
    (void)fprintf(file, ",%s,%s,%" PRIu64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
                  print_micro(arrival->cost_micro, cost), weir_verdict_word(decision->verdict),
                  decision->remaining, decision->retry_after_ns, decision->reset_after_ns,
                  decision->delay_ns);
    if (simulate->fill) {
        char spill[WEIR_AMOUNT_TEXT_MAX];
        (void)weir_amount_print(&outcome->detail->amount, spill);
        (void)fprintf(file, ",%s,%s", spill, outcome->detail->full ? "true" : "false");
    }
    if (has_list(simulate)) {
        bool refused = decision->verdict != WEIR_ALLOWED;
        (void)fprintf(file, ",%s", refused ? lane->tried[outcome->binding].text : "");
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
