/* SPDX-License-Identifier: MIT
 *
 * `weir simulate`: reads a recording from its first line to its last, has libweir decide every arrival
 * at its own time, and says what came of it. Memory is bounded, and no line allocates any. A file with
 * several keys is read once more, for the levels of those that were turned away most. */
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

#define PROGRESS_NS           (NS_PER_S / 5)
#define PROGRESS_MILLIONS_MIN 1e5 // 0.1 million: below it, the number itself

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
    bool again;
    bool shown; // there is a line to wipe
    uint64_t begin_ns, next_ns;
};

static uint64_t monotonic_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void progress_begin(struct progress *progress, const struct simulate *simulate, bool again)
{
    uint64_t now_ns = monotonic_now_ns();
    *progress = (struct progress){
        .shows = isatty(STDERR_FILENO) && !simulate->json,
        .again = again,
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
    if (progress->again) {
        (void)fputs("once more, for the levels", stderr);
        return;
    }
    double per_s = (double)simulate->recording.count / seconds;
    (void)fprintf(stderr,
                  per_s < PROGRESS_MILLIONS_MIN ? "%" PRIu64 " arrivals, %.0f a second"
                                                : "%" PRIu64 " arrivals, %.1f million a second",
                  simulate->recording.count, per_s < PROGRESS_MILLIONS_MIN ? per_s : per_s / 1e6);
}

static void progress_end(const struct progress *progress)
{
    if (progress->shown) {
        (void)fputs("\r\033[K", stderr);
    }
}

struct batch {
    bool again; // these lines have been read before
    bool begun; // the format is known
    size_t count;
    struct arrival arrivals[BATCH_COUNT];
};

static void note_bad(struct simulate *simulate, const struct batch *batch, uint64_t number,
                     const char *why)
{
    if (batch->again) {
        return;
    }
    if (simulate->bad_count < BAD_SHOWN_MAX) {
        simulate->bad[simulate->bad_count] = (struct bad_line){number, why};
    }
    simulate->bad_count++;
}

static void flush(struct simulate *simulate, struct batch *batch)
{
    if (batch->again) {
        lanes_decide_again(simulate, batch->arrivals, batch->count);
    } else {
        lanes_decide(simulate, batch->arrivals, batch->count);
    }
    batch->count = 0;
}

/* One line. Returns NULL, or why nothing can be made of the whole recording. */
static const char *read_line(struct simulate *simulate, struct batch *batch,
                             const struct input *input, struct bytes line)
{
    const char *why = NULL;
    uint64_t number = input->line_number;
    line = number == 1 ? arrival_first_line(line) : line;
    if (arrival_is_blank(line)) {
        return NULL;
    }
    if (!batch->begun) {
        enum arrival_begin begin = arrival_begin(&simulate->reader, line, &why);
        batch->begun = begin != BEGIN_UNKNOWN;
        if (begin == BEGIN_HEADER && arrival_wants_key(&simulate->reader)) {
            key_print(line.at, line.length, simulate->columns);
        }
        if (begin == BEGIN_NEVER || begin == BEGIN_HEADER) {
            return why;
        }
    }
    struct arrival *arrival = &batch->arrivals[batch->count];
    if (why == NULL) {
        why = arrival_read(&simulate->reader, line, arrival);
    }
    if (why == NULL && arrival->key_is_doubled) { // its line is not looked at again
        arrival_undouble(arrival, input->buffer + (arrival->key.at - input->buffer));
    }
    if (why != NULL) {
        note_bad(simulate, batch, number, why);
    } else if (++batch->count == BATCH_COUNT) {
        flush(simulate, batch);
    }
    return NULL;
}

/* From the first line to the last. Returns NULL, or why nothing can be made of them. */
static const char *read_all(struct simulate *simulate, struct input *input, bool again)
{
    struct batch batch = {.again = again};
    struct progress progress;
    struct bytes line;
    const char *why = NULL;
    bool over = false;
    progress_begin(&progress, simulate, again);
    while (!over && why == NULL) {
        switch (input_next(input, &line)) {
        case INPUT_LINE: why = read_line(simulate, &batch, input, line); break;
        case INPUT_LONG:
            note_bad(simulate, &batch, input->line_number, "the line is longer than 65535 bytes");
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

/* True if the levels that a picture shows are still to be found, and can be. Ctrl-C means what there is. */
static bool needs_levels(const struct simulate *simulate, const struct input *input)
{
    return simulate->recording.has_keys && simulate->of == NULL
           && (simulate->svg_path != NULL || !simulate->json) && input->is_file
           && input->failed == 0 && interrupted == 0;
}

/* The lines once more. */
static int find_levels(struct simulate *simulate, struct input *input,
                       const struct arrival_reader *asked)
{
    if (!watch_choose(simulate)) {
        complain(simulate->command, "out of memory");
        return CLI_FAILED;
    }
    int code = lanes_open_again(simulate);
    simulate->reader = *asked;
    if (code == CLI_DONE && input_again(input)) { // a file always can
        (void)read_all(simulate, input, true);
    }
    if (interrupted != 0) { // they would not reach to the end
        watch_forget(simulate);
    }
    return code;
}

static void say_bad(const struct simulate *simulate)
{
    for (uint64_t i = 0; i < simulate->bad_count && i < BAD_SHOWN_MAX; i++) {
        complain(simulate->command, "line %" PRIu64 ": %s", simulate->bad[i].number,
                 simulate->bad[i].why);
    }
}

/* All arrivals were decided, and what there is to find of them was found. An exit code. */
static int check(const struct simulate *simulate, const char *name)
{
    if (simulate->recording.count == 0) {
        say_bad(simulate);
        complain(simulate->command, "%s: there is no arrival in it", name);
        return CLI_FAILED;
    }
    if (simulate->of != NULL && simulate->lanes[0].watched->history.count == 0) {
        complain(simulate->command, "%s: no arrival in it is of the key '%s'", name,
                 simulate->lanes[0].watched->key.text);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

static int replay(struct simulate *simulate)
{
    struct input input;
    const struct arrival_reader asked = simulate->reader; // reading finds out the rest
    const char *name = simulate->path != NULL ? simulate->path : "standard input";
    if (!input_open(&input, simulate->path)) {
        complain(simulate->command, "%s: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    int code = outputs_check(simulate, input.fd);
    code = code == CLI_DONE ? decisions_open(simulate) : code;
    if (code != CLI_DONE) {
        input_close(&input);
        return code;
    }
    catch_interrupt();
    const char *why = read_all(simulate, &input, false);
    lanes_note_full(simulate);
    code = decisions_close(simulate);
    if (why == NULL && code == CLI_DONE && needs_levels(simulate, &input)) {
        code = find_levels(simulate, &input, &asked);
    }
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
    code = code == CLI_DONE ? check(simulate, name) : code;
    return code == CLI_DONE ? show(simulate) : code;
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
        "one because another refused it. Those with a comma between them decide together, all\n"
        "or nothing. A limit begins with its kind or its rate and goes on with every name=value;\n"
        "the word that begins none is the file.",
    .examples = "    weir simulate 10/s access.log\n"
                "    weir simulate 10/s capacity=30 5/s capacity=60 access.log --key path\n"
                "    weir simulate 'window 25/5s, window 60/min' 5/s calls.csv\n"
                "    zcat access.log.*.gz | weir simulate 100/min --svg limits.svg\n"
                "    weir simulate '1000/30d' spending.csv --key none --json\n",
    .options = SIMULATE_OPTIONS,
    .run = run_simulate,
};
