/* SPDX-License-Identifier: MIT
 *
 * One limit for several processes, through a file: what a server that forks its workers does.
 *
 * Four workers try 1000 times each to do what may be done 100 times a day. However they interleave,
 * exactly 100 of the 4000 attempts pass. The file would be there for the next program, too; this one
 * removes it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir/weir.h"

enum { WORKER_COUNT = 4, ATTEMPT_COUNT = 1000 };

/* Exits with how many passed. */
static void work(const char *store)
{
    struct weir_limiter_config config = {.store = store};
    struct weir_limiter *limiter;
    struct weir_rule rule;
    struct weir_error error;
    int passed = 0;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, "100/d", &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        _exit(255);
    }
    for (int attempt = 0; attempt < ATTEMPT_COUNT; attempt++) {
        struct weir_decision decision =
            weir_limiter_take(limiter, &rule, "export:alice", 12, WEIR_UNIT);
        passed += decision.verdict == WEIR_ALLOWED;
    }
    weir_limiter_close(limiter);
    _exit(passed);
}

int main(void)
{
    char folder[] = "/tmp/weir-example-XXXXXX";
    char store[sizeof folder + 16];
    int passed = 0;
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(store, sizeof store, "file:%s/limits", folder);
    for (int i = 0; i < WORKER_COUNT; i++) {
        if (fork() == 0) {
            work(store);
        }
    }
    for (int i = 0; i < WORKER_COUNT; i++) {
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status)) {
            return 1;
        }
        passed += WEXITSTATUS(status);
    }
    printf("%d of %d passed\n", passed, WORKER_COUNT * ATTEMPT_COUNT);
    unlink(store + 5);
    rmdir(folder);
    return 0;
}
