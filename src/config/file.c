/* SPDX-License-Identifier: MIT
 *
 * Which file is the configuration, and what is in it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

void config_error_print(const struct config_error *error, const char *path, char *text, size_t size)
{
    if (error->line > 0) {
        (void)snprintf(text, size, "%s:%u:%u: %s", path, (unsigned)error->line,
                       (unsigned)error->column, error->message);
    } else {
        (void)snprintf(text, size, "%s: %s", path, error->message);
    }
}

/* A path that is not absolute says nothing here: XDG Base Directory Specification. */
static bool is_there(char path[CONFIG_PATH_BYTES_MAX], const char *folder, const char *rest)
{
    if (folder == NULL || folder[0] != '/') {
        return false;
    }
    int length = snprintf(path, CONFIG_PATH_BYTES_MAX, "%s%s", folder, rest);
    return length < CONFIG_PATH_BYTES_MAX && access(path, F_OK) == 0;
}

bool config_find(char path[CONFIG_PATH_BYTES_MAX])
{
    const char *home = getenv("XDG_CONFIG_HOME");
    bool is_said = home != NULL && home[0] == '/';
    return (is_said ? is_there(path, home, "/weir/weir.yaml")
                    : is_there(path, getenv("HOME"), "/.config/weir/weir.yaml"))
           || is_there(path, "/etc", "/weir/weir.yaml");
}

/* Reads up to `size` bytes; -1 with errno. */
static ssize_t read_up_to(int fd, char *bytes, size_t size)
{
    size_t length = 0;
    while (length < size) {
        ssize_t got = read(fd, bytes + length, size - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -1 : (ssize_t)length;
        }
        length += (size_t)got;
    }
    return (ssize_t)length;
}

struct names *config_read_all(const char *path, struct config_errors *errors)
{
    size_t size = CONFIG_BYTES_MAX + 1; // one more, to see that it is larger
    struct names *names = NULL;
    struct config_error *error = &errors->at[0];
    *error = (struct config_error){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = fd >= 0 ? malloc(size) : NULL;
    ssize_t length = bytes != NULL ? read_up_to(fd, bytes, size) : -1;
    if (length < 0) {
        (void)snprintf(error->message, sizeof error->message, "%s", strerror(errno));
        errors->count = 1;
    } else {
        names = config_parse_all(bytes, (size_t)length, errors);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    free(bytes);
    return names;
}

struct names *config_read(const char *path, struct config_error *error)
{
    struct config_errors errors;
    struct names *names = config_read_all(path, &errors);
    *error = errors.at[0];
    return names;
}
