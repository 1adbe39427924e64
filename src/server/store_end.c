/* SPDX-License-Identifier: MIT
 *
 * All text is made beforehand: the signals come in the middle of anything. */
#include "server/store_end.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/startup.h"
#include "server/stores.h"

enum { URL_SHOWN = 300, GRACE_S = 1 };

enum ending { CUT, DAMAGED, STUCK, ENDING_COUNT };

/* What is said of them. A remedy that loses buckets goes with those that it may heal. */
static const struct {
    const char *event, *why;
    bool has_remedy;
} ENDINGS[ENDING_COUNT] = {
    [CUT] = {"store_cut",
             "the file of the store was cut short while it was open, or its disk has failed",
             false},
    [DAMAGED] = {"store_damaged", "it is damaged, or weir has a bug", true},
    [STUCK] = {"store_stuck",
               "nobody can go on: a process that uses it is stopped, or gives it a new size or "
               "content; or it is damaged",
               true},
};

static struct log *log_of_the_end;
static char url_text[URL_SHOWN + 1];
static char path[STORE_PATH_MAX];
static char remedy[URL_SHOWN + 200];
static char sentences[ENDING_COUNT][2 * URL_SHOWN + 500];
static volatile sig_atomic_t is_warned;

static void end(enum ending ending)
{
    if (log_of_the_end == NULL) {
        (void)!write(STDERR_FILENO, sentences[ending], strlen(sentences[ending]));
    } else if (ENDINGS[ending].has_remedy) {
        LOG(log_of_the_end, LOG_ERROR, ENDINGS[ending].event, log_text("url", url_text),
            log_text("why", ENDINGS[ending].why), log_text("remedy", remedy));
    } else {
        LOG(log_of_the_end, LOG_ERROR, ENDINGS[ending].event, log_text("why", ENDINGS[ending].why));
    }
    _exit(EXIT_FAILED);
}

/* BUS_ADRERR: beyond the end of a mapped file. Nothing that was locked stays so: locks of a file have heirs. */
static void end_if_cut(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == BUS_ADRERR) {
        end(CUT);
    }
    (void)signal(number, SIG_DFL); // something else: once more, and then as ever
}

/* An assertion has failed, and has said which. A signal from outside asks for a core. */
static void end_if_damaged(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_pid == getpid()) {
        end(DAMAGED);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* A process that was stopped, by ^Z, finds its time over when it goes on. */
static void end_if_stuck(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    if (is_warned) {
        end(STUCK);
    }
    is_warned = true;
    (void)alarm(GRACE_S);
}

static void write_texts(const char *url)
{
    store_url_show(url, STORE_DRIVERS, url_text, sizeof url_text);
    (void)snprintf(remedy, sizeof remedy,
                   "when all that use it have ended, copy it; this forgets what is in it: "
                   "weir store reset --force --store '%s'",
                   url_text);
    for (int i = 0; i < ENDING_COUNT; i++) {
        if (ENDINGS[i].has_remedy) {
            (void)snprintf(sentences[i], sizeof sentences[i], "weir: %s: %s; %s\n", url_text,
                           ENDINGS[i].why, remedy);
        } else {
            (void)snprintf(sentences[i], sizeof sentences[i], "weir: %s\n", ENDINGS[i].why);
        }
    }
}

static void handle(int number, void (*handler)(int number, siginfo_t *info, void *context))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void store_end_begin(const char *url, struct log *log)
{
    log_of_the_end = log;
    write_texts(url);
    (void)store_driver_read(url, STORE_DRIVERS, path, NULL); // a wrong one is not opened
    handle(SIGBUS, end_if_cut);
    handle(SIGABRT, end_if_damaged);
    handle(SIGALRM, end_if_stuck);
}

void store_end_watch(uint64_t seconds)
{
    is_warned = false;
    (void)alarm((unsigned)(seconds < UINT32_MAX ? seconds : UINT32_MAX));
}

void store_end_watch_opening(void)
{
    struct stat status;
    if (stat(path, &status) == 0) {
        store_end_watch(STUCK_S);
    }
}

void store_end_unwatch(void)
{
    (void)alarm(0);
}
