/* SPDX-License-Identifier: MIT */
#include "cli/store_resize.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limiter/shared_lines/shared_move.h"
#include "server/store_end.h"

/* ^C gives everything back as it was. ^Z, ^S and a terminal whose other end hangs do not stop this process:
 * while it moves the buckets, every take of a bucket that has moved waits for it. All that from the first step
 * on; before that it has changed nothing, waits for others that use the file, and ends as any command does. */
static volatile sig_atomic_t is_interrupted;

static void note_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

static void catch_interrupts(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        (void)sigaction(SIGNALS[i], &action, NULL);
    }
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGTSTP, &action, NULL);
    (void)sigaction(SIGTTOU, &action, NULL);
}

/*   is_shown        on a terminal
 *   phase, percent  what was shown last
 *   patience_s      what a step takes at most that may have to wait for others
 *   is_caught       ^C is */
struct progress {
    bool is_shown;
    enum resize_phase phase;
    uint64_t percent;
    uint64_t patience_s;
    bool is_caught;
};

/* A look through the whole file is a step, too. */
static uint64_t patience_s(const char *path)
{
    struct stat status;
    uint64_t bytes = stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
    return STUCK_S + bytes / SCANNED_PER_S;
}

/* Only what the terminal takes at once. */
__attribute__((format(printf, 1, 2))) static void show(const char *format, ...)
{
    struct pollfd terminal = {.fd = STDERR_FILENO, .events = POLLOUT};
    va_list args;
    va_start(args, format);
    if (poll(&terminal, 1, 0) == 1 && (terminal.revents & POLLOUT) != 0) {
        (void)vdprintf(STDERR_FILENO, format, args);
    }
    va_end(args);
}

/* Making a file and writing it take as long as the disk does. With the last of the new one at hand, locks are
 * waited for. */
static void watch_step(const struct progress *progress, enum resize_phase phase, bool is_last)
{
    if (phase == RESIZE_MOVING || (phase == RESIZE_ALLOCATING && is_last)) {
        store_end_watch(progress->patience_s);
    } else {
        store_end_unwatch();
    }
}

/* Shows nothing while buckets move, which is soon over: ^S may come between the question whether the terminal
 * takes something and the writing. */
static bool watch(void *context, enum resize_phase phase, uint64_t done, uint64_t total)
{
    struct progress *progress = context;
    uint64_t percent = 100 * done / total;
    if (!progress->is_caught) {
        catch_interrupts();
        progress->is_caught = true;
    }
    watch_step(progress, phase, done == total);
    if (progress->is_shown && phase != RESIZE_MOVING
        && (phase != progress->phase || percent != progress->percent)) {
        show("\r%-20s %3" PRIu64 " %%",
             phase == RESIZE_ALLOCATING ? "allocating" : "writing to the disk", percent);
        progress->phase = phase;
        progress->percent = percent;
    }
    return !is_interrupted;
}

static void say_json(uint64_t bytes, const struct resize_report *report)
{
    (void)printf("{\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"events_from\":%" PRIu64
                 ",\"events_to\":%" PRIu64 ",\"moved\":%" PRIu64 ",\"forgotten\":%" PRIu64
                 ",\"waiting\":%" PRIu64 ",\"held_up_ms\":%.3f}\n",
                 report->from_bytes, bytes, report->from_events_bytes, report->events_bytes,
                 report->carried_count, report->left_count, report->waiting_count,
                 (double)report->held_ns / 1e6);
}

static void say(const char *path, uint64_t bytes, const struct resize_report *report)
{
    if (report->from_bytes == bytes && report->from_events_bytes == report->events_bytes) {
        (void)printf("%s has %" PRIu64 " KiB already\n", path, bytes >> 10);
        return;
    }
    (void)printf("%s\n\n", path);
    (void)printf("  size     %" PRIu64 " KiB, and %" PRIu64 " KiB for events\n", bytes >> 10,
                 report->events_bytes >> 10);
    (void)printf("  before   %" PRIu64 " KiB, and %" PRIu64 " KiB for events\n",
                 report->from_bytes >> 10, report->from_events_bytes >> 10);
    (void)printf("  buckets  %" PRIu64 " moved; %" PRIu64 " were empty, and are forgotten\n",
                 report->carried_count, report->left_count);
    if (report->waiting_count > 0) {
        (void)printf("  in line  %" PRIu64 ", who go on waiting there\n", report->waiting_count);
    }
    (void)printf("  waited   %.1f ms at most, whoever took meanwhile\n",
                 (double)report->held_ns / 1e6);
}

int store_resize(const struct command *command, const struct file_upkeep *files, const char *path,
                 uint64_t bytes, uint64_t events_bytes, bool json)
{
    struct progress progress = {.is_shown = !json && isatty(STDERR_FILENO) != 0,
                                .percent = 101,
                                .patience_s = patience_s(path)};
    struct room_mover mover;
    room_mover_init(&mover);
    struct resize_config config = {.path = path,
                                   .bytes = bytes,
                                   .events_bytes = events_bytes,
                                   .lines = &mover.lines,
                                   .watch = watch,
                                   .context = &progress};
    struct resize_report report;
    struct weir_error error = {.message = ""};
    store_end_watch(progress.patience_s);
    enum weir_status status = files->resize(&config, &report, &error);
    store_end_unwatch();
    if (progress.is_shown && progress.percent <= 100) {
        show("\r%-26s\r", "");
    }
    if (status != WEIR_OK) {
        complain(command, "%s", error.message);
        return CLI_FAILED;
    }
    if (json) {
        say_json(bytes, &report);
    } else {
        say(path, bytes, &report);
    }
    return CLI_DONE;
}
