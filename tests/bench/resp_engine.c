/* SPDX-License-Identifier: MIT
 *
 * What the RESP engine costs without a socket: nanoseconds of the thread's processor time per command
 * of a pipeline, and how much of that is reading. The first round also touches the table's pages. */
#include <stdio.h>
#include <time.h>

#include "../support/resp_world.h"
#include "protocol/resp/resp_parse.h"

enum { DEPTH = 64, ROUNDS = 40000 };

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The command so often, each '#' a random digit. */
static size_t write_pipeline(char *to, const char *command, unsigned *seed)
{
    char *start = to;
    for (int i = 0; i < DEPTH; i++) {
        for (const char *from = command; *from != '\0'; from++) {
            *seed = *seed * 1664525 + 1013904223;
            *to++ = *from == '#' ? (char)('0' + (*seed >> 16) % 10) : *from;
        }
    }
    return (size_t)(to - start);
}

static void measure_engine(struct world *world, const char *name, char (*pipelines)[DEPTH * 128],
                           const size_t *lengths, size_t count)
{
    double start = now_s();
    size_t used;
    for (size_t i = 0; i < ROUNDS; i++) {
        world->output.length = 0;
        world->service.now_ns += 1000;
        (void)RESP_ENGINE.feed(world->session, &world->service,
                               (struct bytes){pipelines[i % count], lengths[i % count]},
                               &world->output, &used);
    }
    printf("%-24s engine %6.1f ns\n", name, (now_s() - start) * 1e9 / ROUNDS / DEPTH);
}

static void measure_parser(const char *name, char (*pipelines)[DEPTH * 128], const size_t *lengths,
                           size_t count)
{
    static struct resp_command command;
    double start = now_s();
    size_t args = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct bytes rest = {pipelines[i % count], lengths[i % count]};
        struct resp_progress progress = {.used = 0};
        while (resp_parse(rest, false, &command, &progress) == RESP_DONE) {
            rest.at += progress.used;
            rest.length -= progress.used;
            args += command.arg_count;
        }
    }
    printf("%-24s parser %6.1f ns (%zu)\n", name, (now_s() - start) * 1e9 / ROUNDS / DEPTH,
           args % 10);
}

int main(void)
{
    enum { PIPELINE_COUNT = 256 };
    static char pipelines[PIPELINE_COUNT][DEPTH * 128];
    static size_t lengths[PIPELINE_COUNT];
    static const struct {
        const char *name, *command;
    } CASES[] = {
        {"CL.THROTTLE",
         "*5\r\n$11\r\nCL.THROTTLE\r\n$8\r\nkey#####\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n"},
        {"WEIR.TAKE", "*3\r\n$9\r\nWEIR.TAKE\r\n$8\r\nkey#####\r\n$6\r\n30/min\r\n"},
        {"PING", "*1\r\n$4\r\nPING\r\n"},
    };
    struct world world;
    if (!resp_world_open(&world, WEIR_MEMORY_BYTES)) {
        return 1;
    }
    unsigned seed = 1;
    for (size_t c = 0; c < sizeof CASES / sizeof CASES[0]; c++) {
        for (size_t i = 0; i < PIPELINE_COUNT; i++) {
            lengths[i] = write_pipeline(pipelines[i], CASES[c].command, &seed);
        }
        measure_parser(CASES[c].name, pipelines, lengths, PIPELINE_COUNT);
        measure_engine(&world, CASES[c].name, pipelines, lengths, PIPELINE_COUNT);
        measure_engine(&world, CASES[c].name, pipelines, lengths, PIPELINE_COUNT);
    }
    world_close(&world);
    return 0;
}
