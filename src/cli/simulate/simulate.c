/* SPDX-License-Identifier: MIT
 *
 * `weir simulate`: reads a recording once, from its first line to its last, has libweir decide every
 * arrival at its own time, and says what came of it. Memory is bounded, and no line allocates any. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/duration.h"
#include "cli/simulate/input.h"
#include "cli/simulate/simulate.h"

enum { BATCH_COUNT = 512 };

#define PROGRESS_NS (NS_PER_S / 5)

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* Ctrl-C ends the recording, and what there is is shown; the second one ends weir. No SA_RESTART, so
 * that it also ends a read that waits. */
static void catch_interrupt(void)
{
    struct sigaction interrupt = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &interrupt, NULL);
}

struct progress {
    bool shows;
    bool shown; // there is a line to wipe
    uint64_t begin_ns, next_ns;
};

static uint64_t monotonic_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void progress_begin(struct progress *progress, const struct simulate *simulate)
{
    uint64_t now_ns = monotonic_now_ns();
    *progress = (struct progress){
        .shows = isatty(STDERR_FILENO) && !simulate->json,
        .begin_ns = now_ns,
        .next_ns = now_ns + PROGRESS_NS,
    };
}

/* One line on the terminal, written over and over. */
static void progress_show(struct progress *progress, const struct simulate *simulate,
                          const struct input *input)
{
    uint64_t now_ns = progress->shows ? monotonic_now_ns() : 0;
    if (now_ns < progress->next_ns) {
        return;
    }
    progress->next_ns = now_ns + PROGRESS_NS;
    progress->shown = true;
    double seconds = (double)(now_ns - progress->begin_ns) / (double)NS_PER_S;
    (void)fputs("\r\033[K", stderr);
    if (input->bytes_at_most > 0) {
        (void)fprintf(stderr, "%3d %%  ",
                      (int)((double)input->bytes_read * 100 / (double)input->bytes_at_most));
    }
    (void)fprintf(stderr, "%" PRIu64 " arrivals, %.1f million a second", simulate->recording.count,
                  (double)simulate->recording.count / seconds / 1e6);
}

static void progress_end(const struct progress *progress)
{
    if (progress->shown) {
        (void)fputs("\r\033[K", stderr);
    }
}

static void note_bad(struct simulate *simulate, uint64_t number, const char *why)
{
    if (simulate->bad_count < BAD_SHOWN_MAX) {
        simulate->bad[simulate->bad_count] = (struct bad_line){number, why};
    }
    simulate->bad_count++;
}

struct batch {
    bool begun; // the format is known
    size_t count;
    struct arrival arrivals[BATCH_COUNT];
};

static void flush(struct simulate *simulate, struct batch *batch)
{
    lanes_decide(simulate, batch->arrivals, batch->count);
    batch->count = 0;
}

/* One line. Returns NULL, or why nothing can be made of the whole recording. */
static const char *read_line(struct simulate *simulate, struct batch *batch, struct bytes line,
                             uint64_t number)
{
    const char *why = NULL;
    if (arrival_is_blank(line)) {
        return NULL;
    }
    if (!batch->begun) {
        enum arrival_begin begin = arrival_begin(&simulate->reader, line, &why);
        batch->begun = begin != BEGIN_UNKNOWN;
        if (begin == BEGIN_NEVER || begin == BEGIN_HEADER) {
            return why;
        }
    }
    if (why == NULL) {
        why = arrival_read(&simulate->reader, line, &batch->arrivals[batch->count]);
    }
    if (why != NULL) {
        note_bad(simulate, number, why);
    } else if (++batch->count == BATCH_COUNT) {
        flush(simulate, batch);
    }
    return NULL;
}

/* From the first line to the last. Returns NULL, or why nothing can be made of them. */
static const char *read_all(struct simulate *simulate, struct input *input)
{
    struct batch batch = {.count = 0};
    struct progress progress;
    struct bytes line;
    const char *why = NULL;
    bool over = false;
    progress_begin(&progress, simulate);
    while (!over && why == NULL) {
        switch (input_next(input, &line)) {
        case INPUT_LINE: why = read_line(simulate, &batch, line, input->line_number); break;
        case INPUT_LONG:
            note_bad(simulate, input->line_number, "the line is longer than 65535 bytes");
            break;
        case INPUT_DRY:
            flush(simulate, &batch); // its slices are in the buffer
            progress_show(&progress, simulate, input);
            input->ended |= interrupted != 0;
            if (!input->ended) {
                input_refill(input);
            }
            break;
        case INPUT_END: over = true; break;
        }
    }
    flush(simulate, &batch);
    progress_end(&progress);
    return why;
}

static void say_bad(const struct simulate *simulate)
{
    for (uint64_t i = 0; i < simulate->bad_count && i < BAD_SHOWN_MAX; i++) {
        complain(simulate->command, "line %" PRIu64 ": %s", simulate->bad[i].number,
                 simulate->bad[i].why);
    }
}

static int show(const struct simulate *simulate)
{
    int code = CLI_DONE;
    if (simulate->svg_path != NULL) {
        code = simulate_draw(simulate);
    }
    if (code == CLI_DONE && simulate->json) {
        return simulate_say_json(simulate);
    }
    if (code == CLI_DONE) {
        simulate_say(simulate);
    }
    return code;
}

static int replay(struct simulate *simulate)
{
    struct input input;
    const char *name = simulate->path != NULL ? simulate->path : "standard input";
    if (!input_open(&input, simulate->path)) {
        complain(simulate->command, "%s: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    if (decisions_open(simulate) != CLI_DONE) {
        input_close(&input);
        return CLI_FAILED;
    }
    catch_interrupt();
    const char *why = read_all(simulate, &input);
    int written = decisions_close(simulate);
    int failed = input.failed;
    uint64_t line_number = input.line_number;
    input_close(&input);
    if (failed != 0) {
        complain(simulate->command, "%s: %s", name, strerror(failed));
        return CLI_FAILED;
    }
    if (why != NULL) {
        complain(simulate->command, "%s, line %" PRIu64 ": %s", name, line_number, why);
        return CLI_FAILED;
    }
    if (simulate->recording.count == 0) {
        say_bad(simulate);
        complain(simulate->command, "%s: there is no arrival in it", name);
        return CLI_FAILED;
    }
    return written == CLI_DONE ? show(simulate) : written;
}

static int run_simulate(const struct command *command, int count, char **words)
{
    struct simulate *simulate = calloc(1, sizeof *simulate);
    if (simulate == NULL) {
        complain(command, "out of memory");
        return CLI_FAILED;
    }
    simulate->command = command;
    int code = simulate_read(simulate, count, words);
    if (code == CLI_DONE && simulate->help) {
        command_help(command);
    } else if (code == CLI_DONE) {
        code = lanes_open(simulate);
        code = code == CLI_DONE ? replay(simulate) : code;
    }
    simulate_fini(simulate);
    free(simulate);
    return code;
}

const struct command SIMULATE_COMMAND = {
    .name = "simulate",
    .words = "LIMIT... [FILE]",
    .summary = "what a limit would have done to a log",
    .about =
        "Replays a recording through the same decisions that a server makes: who would have\n"
        "passed, who would have been refused, and how full the bucket was. FILE, or standard\n"
        "input, is CSV (time[,key[,cost]]) or an access log in the common or combined format.\n"
        "Several limits are tried side by side, each on its own: no arrival is held back from\n"
        "one because another refused it. A limit begins with its kind or its rate and goes on\n"
        "with every name=value; the word that begins none is the file.",
    .examples = "    weir simulate 10/s access.log\n"
                "    weir simulate 10/s capacity=30 5/s capacity=60 access.log --key path\n"
                "    zcat access.log.*.gz | weir simulate 100/min --svg limits.svg\n"
                "    weir simulate '1000/30d' spending.csv --key none --json\n",
    .options = SIMULATE_OPTIONS,
    .run = run_simulate,
};
