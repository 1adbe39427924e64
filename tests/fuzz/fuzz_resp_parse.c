/* SPDX-License-Identifier: MIT
 *
 * The reader of RESP commands: any bytes, whole and growing byte by byte, come to the same; what the
 * reader says it needs is needed, and its arguments lie in memory that is there. The first byte says
 * who is asking. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/resp/resp_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Touches every byte of every argument. */
static uint64_t digest(const struct resp_command *command)
{
    uint64_t hash = command->arg_count;
    for (size_t i = 0; i < command->arg_count; i++) {
        hash = hash * 31 + command->args[i].length;
        for (size_t at = 0; at < command->args[i].length; at++) {
            hash = hash * 31 + (unsigned char)command->args[i].at[at];
        }
    }
    return hash;
}

struct outcome {
    enum resp_result result;
    size_t used;
    uint64_t digest;
};

static struct outcome parse(struct bytes input, bool is_stranger, struct resp_progress *progress)
{
    static struct resp_command command;
    struct outcome outcome = {resp_parse(input, is_stranger, &command, progress), 0, 0};
    if (outcome.result == RESP_DONE) {
        require(progress->used >= 1 && progress->used <= input.length);
        outcome.used = progress->used;
        outcome.digest = digest(&command);
    } else if (outcome.result == RESP_MORE) {
        require(progress->need > input.length && progress->need <= RESP_COMMAND_BYTES_MAX);
    } else {
        require(progress->error != NULL && strncmp(progress->error, "Protocol error: ", 16) == 0);
        for (const char *at = progress->error; *at != '\0'; at++) {
            outcome.digest = outcome.digest * 31 + (unsigned char)*at;
        }
    }
    return outcome;
}

/* Each piece is in memory of its own size, so that a sanitizer sees one byte too far. */
static struct outcome parse_growing(struct bytes input, bool is_stranger)
{
    struct resp_progress progress = {.need = 0};
    struct outcome outcome = {.result = RESP_MORE};
    for (size_t length = 1; length <= input.length && outcome.result == RESP_MORE; length++) {
        if (length < progress.need) {
            continue;
        }
        char *piece = malloc(length);
        require(piece != NULL);
        memcpy(piece, input.at, length);
        outcome = parse((struct bytes){piece, length}, is_stranger, &progress);
        free(piece);
    }
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096) {
        return 0;
    }
    bool is_stranger = data[0] == 's';
    struct bytes input = {(const char *)data + 1, size - 1};
    struct resp_progress progress = {.need = 0};
    while (input.length > 0) {
        struct outcome whole = parse(input, is_stranger, &progress);
        struct outcome growing = parse_growing(input, is_stranger);
        /* Who waits for what is needed finds out later that it is bad. */
        require(whole.result == growing.result
                || (whole.result == RESP_BAD && growing.result == RESP_MORE));
        require(growing.result == RESP_MORE
                || (whole.used == growing.used && whole.digest == growing.digest));
        if (whole.result != RESP_DONE) {
            break;
        }
        input.at += whole.used;
        input.length -= whole.used;
    }
    return 0;
}
