/* SPDX-License-Identifier: MIT */
#include "core/quantity.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Reads digits from *text, which then points behind them. False without one, or beyond 64 bits. */
static bool read_digits(const char **text, uint64_t *value)
{
    const char *at = *text;
    uint64_t sum = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    bool any = at != *text;
    *text = at;
    *value = sum;
    return any;
}

bool quantity_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    uint64_t count;
    if (!read_digits(&text, &count) || *text != '\0' || count < min || count > max) {
        return false;
    }
    *value = count;
    return true;
}

bool quantity_parse_bytes(const char *text, uint64_t *bytes)
{
    static const struct unit units[] = {{"", 1},
                                        {"K", 1ULL << 10},
                                        {"KiB", 1ULL << 10},
                                        {"M", 1ULL << 20},
                                        {"MiB", 1ULL << 20},
                                        {"G", 1ULL << 30},
                                        {"GiB", 1ULL << 30},
                                        {"T", 1ULL << 40},
                                        {"TiB", 1ULL << 40}};
    uint64_t count;
    if (!read_digits(&text, &count)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(text, units[i].name) == 0) {
            if (count > UINT64_MAX / units[i].factor) {
                return false;
            }
            *bytes = count * units[i].factor;
            return true;
        }
    }
    return false;
}

bool quantity_parse_duration(const char *text, uint64_t *duration_ns)
{
    static const struct unit units[] = {{"ns", 1},
                                        {"us", 1000},
                                        {"ms", 1000000},
                                        {"s", 1000000000},
                                        {"min", 60ULL * 1000000000},
                                        {"h", 3600ULL * 1000000000},
                                        {"d", 86400ULL * 1000000000}};
    uint64_t count;
    if (!read_digits(&text, &count)) {
        return false;
    }
    if (*text == '\0' && count == 0) {
        *duration_ns = 0;
        return true;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text, units[i].name) == 0) {
            if (count > QUANTITY_DURATION_NS_MAX / units[i].factor) {
                return false;
            }
            *duration_ns = count * units[i].factor;
            return true;
        }
    }
    return false;
}

bool quantity_parse_mode(const char *text, unsigned *mode)
{
    unsigned bits = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '7' && bits <= 0777; at++) {
        bits = bits * 8 + (unsigned)(*at - '0');
    }
    if (at == text || *at != '\0' || bits > 0777) {
        return false;
    }
    *mode = bits;
    return true;
}
