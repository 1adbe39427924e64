/* SPDX-License-Identifier: MIT
 *
 * The files that are written: none of them may be a file that is read, nor the other one. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/simulate/simulate.h"

/* Where a regular file is, or would be: then its folder, and its name there. Devices and pipes have no place, for
 * what is written to them overwrites nothing. */
struct place {
    bool is_known;
    dev_t device;
    ino_t inode;
    const char *name;
};

static struct place place_of(const struct stat *status, const char *name)
{
    return (struct place){true, status->st_dev, status->st_ino, name};
}

static struct place place_of_path(const char *path)
{
    struct stat status;
    if (path != NULL && stat(path, &status) == 0) {
        return S_ISREG(status.st_mode) ? place_of(&status, "") : (struct place){.name = ""};
    }
    char folder[PATH_MAX] = ".";
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    if (path == NULL || errno != ENOENT || length >= sizeof folder) {
        return (struct place){.name = ""};
    }
    if (length > 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    return stat(folder, &status) == 0 ? place_of(&status, path + length)
                                      : (struct place){.name = ""};
}

static struct place place_of_input(int fd)
{
    struct stat status;
    bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    return is_file ? place_of(&status, "") : (struct place){.name = ""};
}

static bool is_same(const struct place *a, const struct place *b)
{
    return a->is_known && b->is_known && a->device == b->device && a->inode == b->inode
           && strcmp(a->name, b->name) == 0;
}

int outputs_check(const struct simulate *simulate, int input_fd)
{
    enum { READ_COUNT = 2, FILE_COUNT = 4 }; // those that are read come first
    const struct {
        const char *what, *path;
        struct place place;
    } files[FILE_COUNT] = {
        {"the recording", NULL, place_of_input(input_fd)},
        {"the configuration", simulate->config_path, place_of_path(simulate->config_path)},
        {"--decisions", simulate->decisions_path, place_of_path(simulate->decisions_path)},
        {"--svg", simulate->svg_path, place_of_path(simulate->svg_path)},
    };
    for (size_t i = READ_COUNT; i < FILE_COUNT; i++) {
        for (size_t j = 0; j < i; j++) {
            if (is_same(&files[i].place, &files[j].place)) {
                return usage_error(simulate->command, "%s %s would overwrite %s", files[i].what,
                                   files[i].path, files[j].what);
            }
        }
    }
    return CLI_DONE;
}
