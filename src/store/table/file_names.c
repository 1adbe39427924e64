/* SPDX-License-Identifier: MIT
 *
 * The names of a file: where it is, where it would be made, and where its successor is made. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/table/file_opening.h"

enum { LINKS_MAX = 40 }; // one after the other, as the kernel has it

bool file_real_path(char real[STORE_PATH_MAX], const char *path)
{
    char *found = realpath(path, NULL);
    if (found == NULL) {
        return false;
    }
    size_t length = strlen(found);
    bool fits = length < STORE_PATH_MAX;
    if (fits) {
        memcpy(real, found, length + 1);
    } else {
        errno = ENAMETOOLONG;
    }
    free(found);
    return fits;
}

/* A name in a folder, which is given by the path of another name there. */
static bool beside(char joined[STORE_PATH_MAX], const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    int folder_length = name[0] == '/' || slash == NULL ? 0 : (int)(slash - path) + 1;
    int length = snprintf(joined, STORE_PATH_MAX, "%.*s%s", folder_length, path, name);
    errno = ENAMETOOLONG;
    return length < STORE_PATH_MAX;
}

/* Where a symbolic link leads, step by step: its end is not there. */
static bool walk_links(char end[STORE_PATH_MAX], const char *path)
{
    char target[STORE_PATH_MAX];
    char from[STORE_PATH_MAX];
    (void)snprintf(end, STORE_PATH_MAX, "%s", path);
    for (int i = 0; i < LINKS_MAX; i++) {
        ssize_t length = readlink(end, target, sizeof target - 1);
        if (length < 0) {
            return true; // none
        }
        target[length] = '\0';
        memcpy(from, end, sizeof from);
        if (!beside(end, from, target)) {
            return false;
        }
    }
    errno = ELOOP;
    return false;
}

bool file_place(char real[STORE_PATH_MAX], const char *path)
{
    char end[STORE_PATH_MAX];
    char folder[STORE_PATH_MAX];
    if (file_real_path(real, path)) {
        return true;
    }
    if (errno != ENOENT || !walk_links(end, path)) {
        return false;
    }
    const char *name = strrchr(end, '/') + 1; // paths are absolute
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(name - end), end);
    if (!file_real_path(folder, folder)) {
        return false;
    }
    size_t length = strlen(folder);
    int whole = snprintf(real, STORE_PATH_MAX, "%s%s%s", folder, length > 1 ? "/" : "", name);
    errno = ENAMETOOLONG;
    return whole < STORE_PATH_MAX;
}

void file_drop_name(char *path)
{
    char *slash = strrchr(path, '/'); // paths are absolute
    slash[slash == path] = '\0';
}

void file_descriptor_path(char descriptor[FILE_DESCRIPTOR_MAX], int fd)
{
    (void)snprintf(descriptor, FILE_DESCRIPTOR_MAX, "/proc/self/fd/%d", fd);
}

bool file_link(int fd, const char *real)
{
    char descriptor[FILE_DESCRIPTOR_MAX];
    file_descriptor_path(descriptor, fd);
    return linkat(AT_FDCWD, descriptor, AT_FDCWD, real, AT_SYMLINK_FOLLOW) == 0;
}

bool file_take_name(const char *from, const char *real)
{
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, real, RENAME_NOREPLACE) == 0;
}

void file_successor_path(char successor[FILE_NAME_MAX], const char *real, uint64_t inode)
{
    (void)snprintf(successor, FILE_NAME_MAX, "%s%s%" PRIu64, real, FILE_SUCCESSOR, inode);
}
