/* SPDX-License-Identifier: MIT */
#include "cli/pipe/meter.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/duration.h"
#include "core/arith.h"

enum { COUNT_TEXT_MAX = 32 };

void meter_start(struct meter *meter, bool shows, bool by_bytes, uint64_t now_ns)
{
    *meter = (struct meter){
        .shows = shows,
        .by_bytes = by_bytes,
        .on_terminal = isatty(STDERR_FILENO),
        .start_ns = now_ns,
        .next_ns = shows ? now_ns + NS_PER_S : UINT64_MAX,
    };
}

/* "999", "1.23 k", "12.34 M": rounded down. With bytes " B", " kB", " MB" follow. */
static const char *print_count(uint64_t thousandths, const char *unit, char text[COUNT_TEXT_MAX])
{
    static const char *const PREFIXES[] = {"", "k", "M", "G", "T", "P"};
    size_t prefix = 0;
    uint64_t step = 1000;
    while (thousandths / step >= 1000 && prefix < sizeof PREFIXES / sizeof PREFIXES[0] - 1) {
        step *= 1000;
        prefix++;
    }
    uint64_t hundredths = thousandths / (step / 100);
    int length = snprintf(text, COUNT_TEXT_MAX, "%" PRIu64, hundredths / 100);
    if (hundredths % 100 != 0) {
        length += snprintf(text + length, COUNT_TEXT_MAX - (size_t)length, ".%02" PRIu64,
                           hundredths % 100);
    }
    (void)snprintf(text + length, COUNT_TEXT_MAX - (size_t)length, "%s%s%s",
                   prefix > 0 || unit[0] != '\0' ? " " : "", PREFIXES[prefix], unit);
    return text;
}

void meter_show(struct meter *meter, uint64_t now_ns)
{
    char count[COUNT_TEXT_MAX];
    char rate[COUNT_TEXT_MAX];
    char elapsed[DURATION_TEXT_MAX];
    uint64_t elapsed_ns = now_ns > meter->start_ns ? now_ns - meter->start_ns : 1;
    uint64_t seconds_ns = (elapsed_ns + NS_PER_S / 2) / NS_PER_S * NS_PER_S;
    uint128 per_s = (uint128)meter->count * 1000 * NS_PER_S / elapsed_ns;
    const char *unit = meter->by_bytes ? "B" : "";
    if (meter->by_bytes) {
        (void)print_count(meter->count * 1000, unit, count);
    } else {
        (void)snprintf(count, sizeof count, "%" PRIu64 " line%s", meter->count,
                       meter->count == 1 ? "" : "s");
    }
    (void)fprintf(stderr, "%s%s  %s/s  %s%s", meter->on_terminal ? "\r\033[K" : "", count,
                  print_count((uint64_t)per_s, unit, rate),
                  duration_print_near(seconds_ns, elapsed), meter->on_terminal ? "" : "\n");
    (void)fflush(stderr);
    meter->next_ns = now_ns + NS_PER_S;
}

void meter_end(struct meter *meter, uint64_t now_ns)
{
    if (meter->shows) {
        meter_show(meter, now_ns);
        (void)fputs(meter->on_terminal ? "\n" : "", stderr);
    }
}
