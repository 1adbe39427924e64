/* SPDX-License-Identifier: MIT */
#include "lost_name.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct lost lost;

void lost_init(const char *name)
{
    (void)snprintf(lost.folder, sizeof lost.folder, "%s/weir-%s-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", name);
    if (mkdtemp(lost.folder) == NULL) {
        give_up("no folder: %s", strerror(errno));
    }
    (void)snprintf(lost.path, sizeof lost.path, "%s/store", lost.folder);
    (void)snprintf(lost.other, sizeof lost.other, "%s/other", lost.folder);
    (void)snprintf(lost.url, sizeof lost.url, "file:%s", lost.path);
    people_init();
}

void lost_fini(void)
{
    (void)rmdir(lost.folder);
}

/* ---- the file and its folder ---- */

void lost_must(bool done, const char *what)
{
    if (!done) {
        give_up("%s: cannot %s: %s", people.key, what, strerror(errno));
    }
}

void lost_copy(const char *to)
{
    char bytes[4096];
    ssize_t length;
    int from_fd = open(lost.path, O_RDONLY);
    int to_fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while ((length = read(from_fd, bytes, sizeof bytes)) > 0) {
        lost_must(write(to_fd, bytes, (size_t)length) == length, "copy");
    }
    (void)close(from_fd);
    (void)close(to_fd);
}

/* ---- who goes on ---- */

enum weir_status lost_regain_with(struct line_mover *lines, struct store_regained *regained,
                                  struct weir_error *error)
{
    struct store *store = people.limiter->store;
    return store->ops->upkeep->regain_name(store, lines, 0, regained, error);
}

enum weir_status lost_regain(struct store_regained *regained, struct weir_error *error)
{
    struct room_mover mover;
    room_mover_init(&mover);
    return lost_regain_with(&mover.lines, regained, error);
}

struct store_regained lost_must_regain(enum store_outcome outcome)
{
    struct store_regained regained;
    struct weir_error error = {.message = ""};
    if (lost_regain(&regained, &error) != WEIR_OK) {
        give_up("%s: %s", people.key, error.message);
    }
    if (regained.outcome != outcome) {
        give_up("%s: outcome %d and not %d", people.key, (int)regained.outcome, (int)outcome);
    }
    return regained;
}

void lost_begin(const char *name, const char *limit)
{
    people_open(lost.url, LOST_FILE_BYTES);
    people_begin(name, limit);
}

void lost_finish(void)
{
    people_must_be_gone();
    weir_limiter_close(people.limiter);
    must_hold_store_only(lost.folder, people.key);
    (void)unlink(lost.path);
}

/* How many units are left, as a process says that opens the file by its name. */
static uint64_t remaining_by_name(void)
{
    uint64_t *remaining = world_share(sizeof *remaining);
    pid_t pid = fork();
    if (pid == 0) {
        people_open(lost.url, 0);
        struct weir_rule rule;
        struct weir_error error;
        if (weir_rule_from_text(&rule, people.limiter, people.limit, &error) != WEIR_OK) {
            give_up("%s", error.message);
        }
        struct weir_request show = {.rule = &rule,
                                    .key = people.key,
                                    .key_len = strlen(people.key),
                                    .operation = WEIR_SHOW};
        struct weir_decision decision;
        weir_limiter_decide(people.limiter, &show, &decision, 1);
        *remaining = decision.remaining;
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    return *remaining;
}

void lost_must_remain(uint64_t count)
{
    uint64_t found = remaining_by_name();
    if (found != count) {
        give_up("%s: %" PRIu64 " units remain, and not %" PRIu64, people.key, found, count);
    }
}
