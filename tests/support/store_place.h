/* SPDX-License-Identifier: MIT
 *
 * A folder of each test's own, with a store's file in it that is opened, looked into and changed. */
#ifndef WEIR_TESTS_STORE_PLACE_H
#define WEIR_TESTS_STORE_PLACE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/table/file.h"
#include "store/table/file_header.h"
#include "weir/weir.h"

#define S UINT64_C(1000000000)

/* A folder of each test's own, and a path in it. */
struct place {
    char folder[64];
    char path[96];
    char url[160];
};

static inline int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    (void)snprintf(place->folder, sizeof place->folder, "/tmp/weir-file-XXXXXX");
    if (mkdtemp(place->folder) == NULL) {
        return -1;
    }
    (void)snprintf(place->path, sizeof place->path, "%s/store", place->folder);
    (void)snprintf(place->url, sizeof place->url, "file:%s", place->path);
    *state = place;
    return 0;
}

static inline int tear_down(void **state)
{
    struct place *place = *state;
    char pattern[80];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/*", place->folder);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            (void)unlink(found.gl_pathv[i]);
        }
        globfree(&found);
    }
    (void)rmdir(place->folder);
    free(place);
    return 0;
}

static inline size_t file_count(const struct place *place)
{
    char pattern[80];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/*", place->folder);
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static inline struct weir_limiter *open_url(const char *url)
{
    struct weir_limiter *limiter;
    struct weir_error error;
    if (weir_limiter_open(&limiter, &(struct weir_limiter_config){.store = url}, &error)
        != WEIR_OK) {
        fail_msg("%s: %s", url, error.message);
    }
    return limiter;
}

/* That it is not opened, with this status, and that the message says so. */
static inline void assert_refused(const struct weir_limiter_config *config,
                                  enum weir_status expected, const char *said)
{
    struct weir_limiter *limiter;
    struct weir_error error = {.message = ""};
    enum weir_status status = weir_limiter_open(&limiter, config, &error);
    if (status != expected || strstr(error.message, said) == NULL) {
        fail_msg("%s: %s: '%s'; expected '%s'", config->store, weir_status_name(status),
                 error.message, said);
    }
    assert_null(limiter);
}

static inline struct weir_decision take(struct weir_limiter *limiter, const char *key,
                                        uint64_t cost)
{
    struct weir_rule rule;
    assert_int_equal(weir_rule_from_text(&rule, limiter, "10/d", NULL), WEIR_OK);
    return weir_limiter_take(limiter, &rule, key, strlen(key), cost * WEIR_UNIT);
}

/* Changes a file while nobody has it open. */
static inline void write_at(const char *path, size_t offset, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, (off_t)offset), count);
    assert_int_equal(close(fd), 0);
}

static inline struct file_header read_header(const char *path)
{
    struct file_header header;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &header, sizeof header, 0), sizeof header);
    assert_int_equal(close(fd), 0);
    return header;
}

static inline void write_header(const char *path, const struct file_header *header)
{
    write_at(path, 0, header, sizeof *header);
}

static inline void make(const char *url)
{
    weir_limiter_close(open_url(url));
}

static inline int exit_code_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
