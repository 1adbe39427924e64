/* SPDX-License-Identifier: MIT */
#include "cli/stuck.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { URL_SHOWN = 300, GRACE_S = 1 };

static char stuck_text[2 * URL_SHOWN + 400];
static char damaged_text[2 * URL_SHOWN + 400];
static volatile sig_atomic_t is_warned;

static void end_with(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
    _exit(CLI_FAILED);
}

/* A command that was stopped, by ^Z, finds its time over when it goes on. */
static void end_if_stuck(int number)
{
    (void)number;
    if (is_warned) {
        end_with(stuck_text);
    }
    is_warned = true;
    (void)alarm(GRACE_S);
}

/* An assertion has failed, and has said which. */
static void end_if_damaged(int number)
{
    (void)number;
    end_with(damaged_text);
}

void stuck_begin(const char *url)
{
    struct sigaction action = {.sa_handler = end_if_stuck, .sa_flags = SA_RESTART};
    (void)snprintf(stuck_text, sizeof stuck_text,
                   "weir: %.*s does not let anybody go on: a process that uses it is stopped, or "
                   "it is damaged. "
                   "When all that use it have ended: weir store reset --force --store '%.*s'\n",
                   URL_SHOWN, url, URL_SHOWN, url);
    (void)snprintf(damaged_text, sizeof damaged_text,
                   "weir: %.*s is damaged. When all that use it have ended: "
                   "weir store reset --force --store '%.*s'\n",
                   URL_SHOWN, url, URL_SHOWN, url);
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGALRM, &action, NULL);
    action.sa_handler = end_if_damaged;
    (void)sigaction(SIGABRT, &action, NULL);
}

void stuck_watch(uint64_t seconds)
{
    is_warned = false;
    (void)alarm((unsigned)(seconds < UINT32_MAX ? seconds : UINT32_MAX));
}

void stuck_end(void)
{
    (void)alarm(0);
}
