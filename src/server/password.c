/* SPDX-License-Identifier: MIT */
#include "server/password.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };
_Static_assert(PASSWORD_BYTES_MAX + 3 < PAGE_BYTES, "a line, its end and a NUL fit in the page");

/* As much as a line can have; a pipe may hand it over in pieces. False with errno. */
static bool read_page(char *page, int fd, size_t *length)
{
    *length = 0;
    while (*length < PASSWORD_BYTES_MAX + 2) {
        ssize_t count = read(fd, page + *length, PASSWORD_BYTES_MAX + 2 - *length);
        if (count <= 0) {
            return count == 0;
        }
        *length += (size_t)count;
    }
    return true;
}

static bool read_line(struct password *password, int fd, const char **why)
{
    size_t count;
    if (!read_page(password->text, fd, &count)) {
        *why = strerror(errno);
        return false;
    }
    const char *end = memchr(password->text, '\n', count);
    size_t length = end != NULL ? (size_t)(end - password->text) : count;
    if (length > 0 && password->text[length - 1] == '\r') {
        length--;
    }
    if (length == 0) {
        *why = "its first line is empty";
        return false;
    }
    if (length > PASSWORD_BYTES_MAX) {
        *why = "its first line is longer than 1024 bytes";
        return false;
    }
    memset(password->text + length, 0, PAGE_BYTES - length);
    password->length = length;
    return true;
}

bool password_read(struct password *password, const char *path, const char **why)
{
    *password = (struct password){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        *why = strerror(errno);
        return false;
    }
    struct stat about;
    if (fstat(fd, &about) == 0) {
        password->is_world_readable = (about.st_mode & S_IROTH) != 0;
    }
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool read_it = false;
    if (page == MAP_FAILED) {
        *why = strerror(errno);
    } else {
        /* Both are defence in depth: a container may not allow the one, an old kernel the other. */
        (void)mlock(page, PAGE_BYTES);
        (void)madvise(page, PAGE_BYTES, MADV_DONTDUMP);
        password->text = page;
        read_it = read_line(password, fd, why);
        if (!read_it) {
            password_fini(password);
        }
    }
    (void)close(fd);
    return read_it;
}

void password_fini(struct password *password)
{
    if (password->text != NULL) {
        explicit_bzero(password->text, PAGE_BYTES);
        (void)munmap(password->text, PAGE_BYTES);
    }
    *password = (struct password){0};
}
