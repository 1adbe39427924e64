/* SPDX-License-Identifier: MIT
 *
 * A backup: the file is copied with cp while a process holds the lock of a stripe, and put back. Its locks name
 * members that are dead there, whoever else uses the file by then: so every copy has heirs, and what was charged
 * before the copy was made is in it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drill.h"
#include "steps.h"

enum { BEFORE = 4 }; // charged before the copy is made

static char beside[DRILL_KEY_MAX]; // at home where the held key is
static char backup[80];

static void copy(const char *from, const char *into)
{
    char command[256];
    (void)snprintf(command, sizeof command, "cp '%s' '%s'", from, into);
    if (system(command) != 0) {
        give_up("failed: %s", command);
    }
}

static ino_t inode_of(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        give_up("no %s", path);
    }
    return status.st_ino;
}

/* Makes a backup, in which the lock is held. */
static void begin(const char *name)
{
    drill_begin(name);
    for (int i = 0; i < BEFORE; i++) {
        (void)drill_take("before");
    }
    drill_hold("held", NULL);
    drill_key(DRILL_SAME_LINE, beside);
    (void)snprintf(backup, sizeof backup, "%s.backup", drill.path);
    copy(drill.path, backup);
}

static void end(void)
{
    (void)unlink(backup);
    drill_end();
}

/* What is in a copy of the backup, to somebody that comes anew. */
static void check_copy(void)
{
    drill_must_be(drill_answer(drill_start_taker(beside, NULL)), DRILL_CAPACITY,
                  "a key of the held stripe");
    drill_must_be(drill_answer(drill_start_taker("before", NULL)), DRILL_CAPACITY - BEFORE,
                  "a key of before");
    drill_must_be(drill_answer(drill_start_taker("held", NULL)), DRILL_CAPACITY, "the held key");
}

static void in_place(void)
{
    begin("a backup is copied over the file, which nobody uses by then");
    drill_kill_holder();
    drill_must_be(drill_count("before"), DRILL_CAPACITY - BEFORE, "after the backup");
    drill_close();
    copy(backup, drill.path);
    check_copy();
    end();
}

static void removed_first(void)
{
    begin("the file is removed, and a backup is copied to its name");
    drill_kill_holder();
    drill_close();
    ino_t inode = inode_of(drill.path);
    (void)unlink(drill.path);
    copy(backup, drill.path);
    printf("    %s inode\n", inode_of(drill.path) == inode ? "the same" : "another");
    check_copy();
    end();
}

/* Whether what it had taken counts any longer is the operator's own business. It goes on. */
static void under_a_user(void)
{
    begin("a backup is copied over the file, which somebody has open");
    drill_kill_holder();
    copy(backup, drill.path);
    check_copy();
    drill_must_be(drill_count(beside) + drill_count("before") + drill_count("held"), 0,
                  "the one that had it open");
    drill_must_be(drill_count("another"), DRILL_CAPACITY, "the one that had it open");
    end();
}

/* The member that holds the lock is dead in the copy, and alive in the original. */
static void beside_the_original(void)
{
    begin("a copy is opened while the holder goes on in the original");
    char original[sizeof drill.url];
    (void)snprintf(original, sizeof original, "%s", drill.url);
    struct taker *waits = drill_start_taker(beside, NULL);
    drill_must_wait(waits);
    (void)snprintf(drill.url, sizeof drill.url, "file:%s", backup);
    check_copy();
    drill_must_wait(waits);
    (void)snprintf(drill.url, sizeof drill.url, "%s", original);
    drill_let_go();
    drill_must_be(drill_answer(waits), DRILL_CAPACITY, "the one that waited in the original");
    drill_must_be(drill_count("held"), DRILL_CAPACITY - 1, "beside the holder");
    drill_must_be(drill_count("before"), DRILL_CAPACITY - BEFORE, "in the original");
    end();
}

int main(void)
{
    if (!steps_are_possible()) {
        drill_skip("a copy of a held lock", "no single steps here");
        return drill_exit_code();
    }
    in_place();
    removed_first();
    under_a_user();
    beside_the_original();
    return drill_exit_code();
}
