/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/bucket_math.h"
#include "store/table/file.h"
#include "store/table/home.h"

void give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fflush(stdout);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

struct table *world_open(uint64_t bytes)
{
    char path[] = "/tmp/weir-processes-XXXXXX";
    if (mkdtemp(path) == NULL) {
        give_up("no folder in /tmp");
    }
    char file[sizeof path + 8];
    (void)snprintf(file, sizeof file, "%s/store", path);
    struct file_config config = {
        .path = file, .bytes = bytes, .mode = 0600, .is_caller_clock = true, .seed = {1, 2}};
    struct store *store;
    uint64_t seed[2];
    struct weir_error error = {.message = ""};
    enum weir_status status = table_open_file(&store, &config, seed, &error);
    (void)unlink(file);
    (void)rmdir(path);
    if (status != WEIR_OK) {
        give_up("%s", error.message);
    }
    return (struct table *)store;
}

void world_join(struct table *table)
{
    if (!table_join_again(table)) {
        give_up("cannot join");
    }
}

void must_hold_store_only(const char *folder, const char *of_whom)
{
    DIR *opened = opendir(folder);
    struct dirent *entry;
    while ((entry = readdir(opened)) != NULL) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "store") != 0) {
            give_up("%s: %s is left", of_whom, entry->d_name);
        }
    }
    (void)closedir(opened);
}

bool has_nameless_files(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

bool forbid_nameless_files(void)
{
    enum { FLAGS_ARGUMENT = 2 };
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[FLAGS_ARGUMENT])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0
           && !has_nameless_files("/tmp");
}

void let_others_go_first(void)
{
    int niceness = nice(10); // -1 may be one, too: nothing depends on it
    (void)niceness;
}

void *world_share(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        give_up("no memory");
    }
    return at;
}

struct weir_rule world_rule(const char *limit)
{
    struct weir_rule rule = {.hash_key = {3, 4}};
    struct weir_error error;
    if (weir_limit_from_text(&rule.limit, limit, &error) != WEIR_OK) {
        give_up("%s: %s", limit, error.message);
    }
    return rule;
}

uint64_t world_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void world_lock_all(struct table *table)
{
    for (uint64_t i = 0; i < table->stripe_count; i++) {
        struct stripe *stripe = &table->stripes[i];
        if (lock_acquire(&stripe->lock, &table->members)) {
            table_repair(table, stripe);
        }
        lock_release(&stripe->lock);
    }
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;
    return (*left > *right) - (*left < *right);
}

void world_check(const struct table *table)
{
    uint64_t slot_count = table->stripe_count * table->stripe_lines * TABLE_LINE_SLOTS;
    uint64_t *tags = calloc(slot_count, sizeof *tags);
    uint64_t count = 0;
    uint64_t used_count = 0;
    if (tags == NULL) {
        give_up("no memory");
    }
    for (uint64_t i = 0; i < slot_count; i++) {
        const struct table_line *line = &table->lines[i / TABLE_LINE_SLOTS];
        uint64_t tag = line->tags[i % TABLE_LINE_SLOTS];
        if (tag == 0) {
            continue;
        }
        if ((line->states[i % TABLE_LINE_SLOTS].word & BUCKET_OWNER_MASK) != table_owner_of(tag)) {
            give_up("slot %" PRIu64 " is not its tag's", i);
        }
        if ((line->states[i % TABLE_LINE_SLOTS].word & BUCKET_MARKED) != 0) {
            give_up("slot %" PRIu64 " is marked, and nobody is deciding", i);
        }
        tags[count++] = tag;
    }
    qsort(tags, count, sizeof *tags, by_value);
    for (uint64_t i = 1; i < count; i++) {
        if (tags[i] == tags[i - 1]) {
            give_up("a key has two slots");
        }
    }
    for (uint64_t i = 0; i < table->stripe_count; i++) {
        used_count += table->stripes[i].used_count;
    }
    if (used_count != count) {
        give_up("%" PRIu64 " slots are in use, and %" PRIu64 " were counted", count, used_count);
    }
    free(tags);
}
