/* SPDX-License-Identifier: MIT
 *
 * What all handlers share: they read the words of a command, say that it failed, and have subcommands. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "protocol/quotes.h"
#include "protocol/resp/resp_session.h"

/* ---- words ---- */

bool resp_word_is(struct bytes bytes, const char *word)
{
    for (size_t i = 0; i < bytes.length; i++) {
        char c = bytes.at[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if (c != word[i] || c == '\0') {
            return false;
        }
    }
    return word[bytes.length] == '\0';
}

/* Reads four to eight digits, all at once: the first digit is the lowest byte of a word, zeroes stand before it, and
 * neighbours are joined to numbers of two, four and eight digits. False if any byte is not a digit.
 *
 *     "86400"   00 00 00 08 06 04 00 00     0 0, 0 8, 64, 0 0     0008, 6400     86400 */
static bool read_digits_at_once(struct bytes bytes, int64_t *value)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t fours =
        UINT64_C(0x000000ff000000ff); // a number of two digits in each four bytes
    uint32_t first;
    uint32_t last;
    memcpy(&first, bytes.at, sizeof first);
    memcpy(&last, bytes.at + bytes.length - sizeof last, sizeof last);
    unsigned unused_bits = 8 * (unsigned)(8 - bytes.length);
    uint64_t word = (uint64_t)last << 32 | (uint32_t)((uint64_t)first << unused_bits);
    word ^= ones * '0' << unused_bits;
    if (((word + ones * (0x7f - 9)) | word) & ones * 0x80) {
        return false;
    }
    word = word * 10 + (word >> 8);
    word = (word & fours) * (100 + (UINT64_C(1000000) << 32))
           + (word >> 16 & fours) * (1 + (UINT64_C(10000) << 32));
    *value = (int64_t)(word >> 32);
    return true;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first digit is the lowest byte");

bool resp_read_integer(struct bytes bytes, int64_t *value)
{
    bool is_usual = bytes.length >= 4 && bytes.length <= 8;
    if (is_usual && read_digits_at_once(bytes, value)) {
        return true;
    }
    uint64_t magnitude = 0;
    bool is_negative = bytes.length > 0 && bytes.at[0] == '-';
    uint64_t max = (uint64_t)INT64_MAX + is_negative;
    size_t i = is_negative || (bytes.length > 0 && bytes.at[0] == '+');
    if (i == bytes.length) {
        return false;
    }
    for (; i < bytes.length; i++) {
        unsigned digit = (unsigned)(bytes.at[i] - '0');
        if (digit > 9 || magnitude > max / 10) {
            return false;
        }
        magnitude = magnitude * 10 + digit; // at most max + 9 here: no overflow
    }
    if (magnitude > max) {
        return false;
    }
    *value = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* ---- what failed ---- */

static bool starts_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Where a password is missing or wrong, that is counted, and told of elsewhere. A wrong number of arguments quotes
 * the name of a command as our tables have it. */
static void note_error(struct service *service, const char *text)
{
    char emptied[RESP_FAIL_BYTES_MAX];
    if (service->ops->note_bad_request != NULL && starts_with(text, "ERR ")) {
        bool is_unknown = starts_with(text, "ERR unknown command");
        bool is_arity = starts_with(text, "ERR wrong number of arguments");
        const char *why = is_arity ? text : quotes_empty(text, emptied, sizeof emptied);
        service->ops->note_bad_request(service, PROTOCOL_RESP,
                                       is_unknown ? "unknown_command" : "invalid",
                                       why + strlen("ERR "));
    }
}

void resp_fail(struct resp_call *call, const char *format, ...)
{
    char text[RESP_FAIL_BYTES_MAX];
    va_list args;
    if (call->batch->count > 0) { // answers stay in order
        call->outcome = RESP_BEHIND;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    call->has_failed = true;
    counter_add(&call->service->counters->bad_requests[PROTOCOL_RESP], 1);
    note_error(call->service, text);
    resp_write_error(call->output, "%s", text);
}

void resp_fail_arity(struct resp_call *call, const char *name)
{
    resp_fail(call, "ERR wrong number of arguments for '%s' command", name);
}

/* ---- subcommands ---- */

const struct resp_handler *resp_find_in(const struct resp_handler *table, struct bytes name)
{
    for (; table->name != NULL; table++) {
        if (resp_word_is(name, table->name)) {
            return table;
        }
    }
    return NULL;
}

const struct resp_handler *resp_find_handler(const struct resp_call *call, struct bytes name)
{
    const struct resp_handler *const *table = call->tables;
    for (; *table != NULL; table++) {
        const struct resp_handler *handler = resp_find_in(*table, name);
        if (handler != NULL) {
            return handler;
        }
    }
    return NULL;
}

bool resp_fits_arity(const struct resp_handler *handler, size_t arg_count)
{
    return handler->arity >= 0 ? arg_count == (size_t)handler->arity
                               : arg_count >= (size_t)-handler->arity;
}

/* "client" as "CLIENT": the names in the tables are short. */
static const char *to_upper(const char *name, char upper[32])
{
    size_t i = 0;
    for (; name[i] != '\0' && i < 31; i++) {
        upper[i] = (char)(name[i] - 'a' + 'A');
    }
    upper[i] = '\0';
    return upper;
}

static void write_help(struct resp_call *call, const char *upper, const struct resp_handler *table)
{
    size_t count = 0;
    while (table[count].name != NULL) {
        count++;
    }
    resp_write_array(call->output, count + 1);
    buffer_printf(call->output, "+%s <subcommand> [<arg> ...]. Subcommands are:\r\n", upper);
    for (size_t i = 0; i < count; i++) {
        resp_write_simple(call->output, table[i].name);
    }
}

void resp_handle_subcommand(struct resp_call *call, const char *name,
                            const struct resp_handler *table)
{
    char upper[32];
    struct bytes word = resp_arg(call, 1);
    const struct resp_handler *handler = resp_find_in(table, word);
    if (handler == NULL && resp_word_is(word, "help") && call->command->arg_count == 2) {
        if (!call->only_checks) {
            write_help(call, to_upper(name, upper), table);
        }
    } else if (handler == NULL) {
        resp_fail(call, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                  (int)(word.length < 128 ? word.length : 128), word.at, to_upper(name, upper));
    } else if (!resp_fits_arity(handler, call->command->arg_count)) {
        resp_fail(call, "ERR wrong number of arguments for '%s|%s' command", name, handler->name);
    } else if (!call->only_checks) {
        handler->handle(call);
    }
}
