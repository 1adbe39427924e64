/* SPDX-License-Identifier: MIT */
#include "cli/simulate/instant.h"

#include <string.h>
#include <time.h>

#include "cli/duration.h"
#include "weir/limit.h"

enum { SECOND_POWER = 9, DIGITS_MAX = 19 };

static const char TOO_LATE[] = "the time is after the year 2116";
static const char TOO_FINE[] = "the time is finer than a nanosecond";
const char INSTANT_NONE[] = "expected a time: seconds, 1500ms, or 2026-11-21T10:24:48Z";
static const char NO_DATE[] = "there is no such date or time of day";
static const char NO_LOG_TIME[] = "expected a time such as [10/Oct/2000:13:55:36 -0700]";

static const uint64_t POWERS[] = {1,      10,      100,      1000,      10000,
                                  100000, 1000000, 10000000, 100000000, 1000000000};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* How many digits stand at `at`. */
static size_t count_digits(struct bytes text, size_t at)
{
    size_t end = at;
    while (end < text.length && is_digit(text.at[end])) {
        end++;
    }
    return end - at;
}

/* `count` digits at `at`, at most DIGITS_MAX. */
static uint64_t number_at(const char *at, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        value = value * 10 + (uint64_t)(at[i] - '0');
    }
    return value;
}

/* A fraction of 10^power ns, from its digits: exact, or too fine. */
static bool read_fraction(uint64_t *ns, const char *digits, size_t count, unsigned power)
{
    size_t whole = count < power ? count : power;
    for (size_t i = whole; i < count; i++) {
        if (digits[i] != '0') {
            return false;
        }
    }
    *ns = number_at(digits, whole) * POWERS[power - whole];
    return true;
}

bool instant_unit(unsigned *power, struct bytes name)
{
    static const struct {
        const char *name;
        unsigned power;
    } UNITS[] = {{"s", 9}, {"ms", 6}, {"us", 3}, {"ns", 0}};
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        if (name.length == strlen(UNITS[i].name)
            && memcmp(name.at, UNITS[i].name, name.length) == 0) {
            *power = UNITS[i].power;
            return true;
        }
    }
    return false;
}

/* Of a number that is too large for its unit. One without any, which counts as seconds, is likely of a program that
 * counts in smaller steps since 1970. */
static const char *why_too_late(uint64_t whole, bool is_plain, unsigned power)
{
    static const struct {
        uint64_t ns;
        const char *why;
    } HINTS[] = {
        {1000000, "the time is after the year 2116 in seconds; in milliseconds: --unit ms"},
        {1000, "the time is after the year 2116 in seconds; in microseconds: --unit us"},
        {1, "the time is after the year 2116 in seconds; in nanoseconds: --unit ns"},
    };
    for (size_t i = 0; is_plain && power == SECOND_POWER && i < sizeof HINTS / sizeof HINTS[0];
         i++) {
        if (whole <= WEIR_NOW_NS_MAX / HINTS[i].ns) {
            return HINTS[i].why;
        }
    }
    return TOO_LATE;
}

/* "12.5", "1500ms". */
static const char *read_number(uint64_t *at_ns, struct bytes text, unsigned power)
{
    size_t count = count_digits(text, 0);
    size_t at = count;
    const char *fraction = text.at + count;
    size_t places = 0;
    if (count == 0) {
        return INSTANT_NONE;
    }
    if (at < text.length && text.at[at] == '.') {
        fraction++;
        places = count_digits(text, at + 1);
        at += 1 + places;
        if (places == 0) {
            return INSTANT_NONE;
        }
    }
    struct bytes unit = {text.at + at, text.length - at};
    if (unit.length > 0 && !instant_unit(&power, unit)) {
        return INSTANT_NONE;
    }
    uint64_t ns;
    if (!read_fraction(&ns, fraction, places, power)) {
        return TOO_FINE;
    }
    uint64_t whole = count <= DIGITS_MAX ? number_at(text.at, count) : UINT64_MAX;
    if (whole > (WEIR_NOW_NS_MAX - ns) / POWERS[power]) {
        return why_too_late(whole, unit.length == 0, power);
    }
    *at_ns = whole * POWERS[power] + ns;
    return NULL;
}

/* A date and a time of day, as written. */
struct moment {
    uint64_t year, month, day, hour, minute, second;
};

static bool is_leap(uint64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool moment_valid(const struct moment *m)
{
    static const uint8_t DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return m->year >= 1970 && m->month >= 1 && m->month <= 12 && m->day >= 1
           && m->day <= DAYS[m->month - 1] + (uint64_t)(m->month == 2 && is_leap(m->year))
           && m->hour <= 23 && m->minute <= 59 && m->second <= 60; // a leap second is the next one
}

/* Days since 1970-01-01 in the calendar of Gregory. Years are counted from March, so that the day
 * that comes and goes is the last of its year, and months have lengths that one formula gives. */
static uint64_t days_of(const struct moment *m)
{
    uint64_t year = m->year - (m->month <= 2);
    uint64_t month = (m->month + 9) % 12; // March is 0
    uint64_t days_before_month = (153 * month + 2) / 5;
    uint64_t days = 365 * year + year / 4 - year / 100 + year / 400 + days_before_month + m->day;
    return days - 719469; // the same for 1970-01-01
}

/* "+0100" is east of Greenwich, and so an hour earlier there. */
static const char *moment_to_ns(uint64_t *at_ns, const struct moment *m, char sign,
                                uint64_t offset_s, uint64_t fraction_ns)
{
    if (!moment_valid(m) || offset_s >= 86400) {
        return NO_DATE;
    }
    uint64_t s = days_of(m) * 86400 + m->hour * 3600 + m->minute * 60 + m->second;
    if (sign == '+' && s < offset_s) {
        return NO_DATE; // before 1970
    }
    s = sign == '+' ? s - offset_s : s + offset_s;
    if (s > (WEIR_NOW_NS_MAX - fraction_ns) / NS_PER_S) {
        return TOO_LATE;
    }
    *at_ns = s * NS_PER_S + fraction_ns;
    return NULL;
}

/* True if `text` has the shape: 0 any digit, anything else itself. */
static bool has_shape(struct bytes text, size_t at, const char *shape)
{
    size_t length = strlen(shape);
    if (text.length < at || text.length - at < length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char c = text.at[at + i];
        if (shape[i] == '0' ? !is_digit(c) : c != shape[i]) {
            return false;
        }
    }
    return true;
}

/* RFC 3339, section 5.6; the note there allows a space for the T, and small letters. */
static const char *read_rfc3339(uint64_t *at_ns, struct bytes text)
{
    const char *t = text.at;
    bool has_both = has_shape(text, 0, "0000-00-00") && has_shape(text, 11, "00:00:00")
                    && (t[10] == 'T' || t[10] == 't' || t[10] == ' ');
    if (!has_both) {
        return INSTANT_NONE;
    }
    struct moment moment = {number_at(t, 4),      number_at(t + 5, 2),  number_at(t + 8, 2),
                            number_at(t + 11, 2), number_at(t + 14, 2), number_at(t + 17, 2)};
    size_t at = 19;
    uint64_t fraction_ns = 0;
    if (at < text.length && t[at] == '.') {
        size_t places = count_digits(text, at + 1);
        if (places == 0) {
            return INSTANT_NONE;
        }
        if (!read_fraction(&fraction_ns, t + at + 1, places, SECOND_POWER)) {
            return TOO_FINE;
        }
        at += 1 + places;
    }
    size_t left = text.length - at;
    if (left == 1 && (t[at] == 'Z' || t[at] == 'z')) {
        return moment_to_ns(at_ns, &moment, '+', 0, fraction_ns);
    }
    if (left == 6 && (t[at] == '+' || t[at] == '-') && has_shape(text, at + 1, "00:00")) {
        uint64_t offset_s = number_at(t + at + 1, 2) * 3600 + number_at(t + at + 4, 2) * 60;
        return moment_to_ns(at_ns, &moment, t[at], offset_s, fraction_ns);
    }
    return "the time has no offset from UTC: Z or +01:00 at its end";
}

const char *instant_parse(uint64_t *at_ns, struct bytes text, unsigned unit_power)
{
    bool is_date = text.length > 4 && text.at[4] == '-';
    return is_date ? read_rfc3339(at_ns, text) : read_number(at_ns, text, unit_power);
}

/* 1 to 12, or 0. */
static uint64_t month_of(const char *name)
{
    static const char NAMES[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (uint64_t i = 0; i < 12; i++) {
        if (memcmp(NAMES + 3 * i, name, 3) == 0) {
            return i + 1;
        }
    }
    return 0;
}

const char *instant_parse_log(uint64_t *at_ns, struct bytes text)
{
    const char *t = text.at;
    bool fits = text.length == 26 && has_shape(text, 0, "00/")
                && has_shape(text, 6, "/0000:00:00:00 ") && (t[21] == '+' || t[21] == '-')
                && has_shape(text, 22, "0000");
    if (!fits) {
        return NO_LOG_TIME;
    }
    struct moment moment = {number_at(t + 7, 4),  month_of(t + 3),      number_at(t, 2),
                            number_at(t + 12, 2), number_at(t + 15, 2), number_at(t + 18, 2)};
    uint64_t offset_s = number_at(t + 22, 2) * 3600 + number_at(t + 24, 2) * 60;
    return moment_to_ns(at_ns, &moment, t[21], offset_s, 0);
}

const char *instant_print(uint64_t at_ns, char text[INSTANT_TEXT_MAX])
{
    time_t s = (time_t)(at_ns / NS_PER_S);
    struct tm utc;
    (void)gmtime_r(&s, &utc);
    (void)strftime(text, INSTANT_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}
