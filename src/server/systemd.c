/* SPDX-License-Identifier: MIT */
#include "server/systemd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/quantity.h"

bool systemd_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (path == NULL || path[0] == '\0') {
        return true;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || length >= sizeof address.sun_path) {
        return false;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; // the abstract namespace
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    socklen_t address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                          address_len);
    (void)close(fd);
    return sent >= 0;
}

/* $LISTEN_FDNAMES is "resp:http"; a missing name is empty. */
static void split_names(struct systemd_sockets *sockets, const char *names)
{
    size_t length = strlen(names);
    if (length >= sizeof sockets->text) {
        length = 0;
    }
    memcpy(sockets->text, names, length);
    sockets->text[length] = '\0';
    char *rest = sockets->text;
    for (size_t i = 0; i < sockets->count; i++) {
        char *name = strsep(&rest, ":");
        sockets->names[i] = name != NULL ? name : "";
    }
}

void systemd_take_sockets(struct systemd_sockets *sockets)
{
    *sockets = (struct systemd_sockets){0};
    const char *pid_text = getenv("LISTEN_PID");
    const char *count_text = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    uint64_t pid, count;
    if (pid_text != NULL && count_text != NULL && quantity_parse_count(pid_text, 1, INT32_MAX, &pid)
        && pid == (uint64_t)getpid()
        && quantity_parse_count(count_text, 1, SYSTEMD_FD_COUNT_MAX, &count)) {
        sockets->count = (size_t)count;
        split_names(sockets, names != NULL ? names : "");
        for (int fd = SYSTEMD_FD_FIRST; fd < SYSTEMD_FD_FIRST + (int)count; fd++) {
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
}
