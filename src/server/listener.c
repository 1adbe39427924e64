/* SPDX-License-Identifier: MIT */
#include "server/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,         // the kernel lowers it to net.core.somaxconn
    KEEPALIVE_IDLE_S = 300, // a client whose machine has vanished is found out after these ..
    KEEPALIVE_INTERVAL_S = 60,
    KEEPALIVE_COUNT = 5 // .. and so many unanswered probes
};

static enum listener_result failure(int fd)
{
    int error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
    return error == EADDRINUSE ? LISTENER_BUSY : LISTENER_FAILED;
}

static void name_listener(struct listener *listener, int fd)
{
    listener->address.length = sizeof listener->address.storage;
    (void)getsockname(fd, &listener->address.any, &listener->address.length);
    address_print(&listener->address, listener->name, sizeof listener->name);
}

static bool set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* What accepted sockets inherit on Linux: so it is said once, not per connection. */
static void set_inherited_options(int fd)
{
    (void)set_option(fd, IPPROTO_TCP, TCP_NODELAY,
                     1); // whole batches are written: nothing to wait for
    (void)set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
}

static bool is_every_interface(const struct socket_address *address)
{
    return address->any.sa_family == AF_INET6
           && memcmp(&address->v6.sin6_addr, &in6addr_any, sizeof in6addr_any) == 0;
}

/* A bound socket, or -1. */
static int bind_tcp(const struct socket_address *address, bool reuse_port)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    bool prepared = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1); // a restart meets TIME_WAIT
    if (reuse_port) {
        prepared = prepared && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (address->any.sa_family == AF_INET6) { // [::] is IPv4 too, everything else is not
        prepared =
            prepared
            && set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, is_every_interface(address) ? 0 : 1);
    }
    if (prepared && bind(fd, &address->any, address->length) == 0) {
        return fd;
    }
    (void)failure(fd);
    return -1;
}

/* With SO_REUSEPORT a second server of the same user would bind the same port without an error and
 * take half of the connections. One bind without it finds that out. (Two servers that start within
 * the same microseconds still can.) */
static bool is_free(const struct socket_address *address)
{
    int fd = bind_tcp(address, false);
    if (fd < 0) {
        return false;
    }
    (void)close(fd);
    return true;
}

enum listener_result listener_open_tcp(struct listener *listener,
                                       const struct socket_address *address, size_t fd_count)
{
    bool any_port =
        (address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port) == 0;
    if (!any_port && !is_free(address)) {
        return failure(-1);
    }
    struct socket_address actual = *address;
    for (size_t i = 0; i < fd_count; i++) {
        int fd = bind_tcp(&actual, fd_count > 1);
        if (fd < 0 || listen(fd, BACKLOG) != 0) {
            enum listener_result result = failure(fd);
            int error = errno;
            listener_close(listener);
            errno = error;
            return result;
        }
        set_inherited_options(fd);
        listener->fds[listener->fd_count++] = fd;
        if (i == 0) {
            name_listener(listener, fd);
            actual = listener->address; // the port that the kernel chose, for the others too
        }
    }
    return LISTENER_OPEN;
}

/* A socket file at the address: does anybody listen? If not, it was left behind: remove it. */
static enum listener_result remove_stale(const struct socket_address *address)
{
    struct stat about;
    if (lstat(address->local.sun_path, &about) != 0) {
        return errno == ENOENT ? LISTENER_OPEN : LISTENER_FAILED;
    }
    if (!S_ISSOCK(about.st_mode)) {
        errno = EEXIST;
        return LISTENER_FAILED;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return LISTENER_FAILED;
    }
    bool is_stale = connect(fd, &address->any, address->length) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    if (!is_stale) {
        errno = EADDRINUSE;
        return LISTENER_BUSY;
    }
    return unlink(address->local.sun_path) == 0 ? LISTENER_OPEN : LISTENER_FAILED;
}

enum listener_result listener_open_unix(struct listener *listener, const char *path, unsigned mode)
{
    struct socket_address address = {.length = sizeof address.local};
    address.local.sun_family = AF_UNIX;
    (void)snprintf(address.local.sun_path, sizeof address.local.sun_path, "%s", path);
    enum listener_result result = remove_stale(&address);
    if (result != LISTENER_OPEN) {
        return result;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mode_t before = umask(~(mode_t)mode & 0777); // never wider than asked, not for an instant
    bool bound = fd >= 0 && bind(fd, &address.any, address.length) == 0;
    (void)umask(before);
    if (!bound) {
        return failure(fd);
    }
    struct stat about;
    if (listen(fd, BACKLOG) != 0 || stat(path, &about) != 0) {
        result = failure(fd);
        (void)unlink(path);
        return result;
    }
    listener->is_shared = true;
    listener->fds[listener->fd_count++] = fd;
    listener->made_path = true;
    listener->device = about.st_dev;
    listener->inode = about.st_ino;
    name_listener(listener, fd);
    return LISTENER_OPEN;
}

enum listener_result listener_adopt(struct listener *listener, int fd)
{
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
        errno = ENOTCONN;
        return LISTENER_FAILED;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return LISTENER_FAILED;
    }
    listener->is_shared = true;
    listener->is_adopted = true;
    listener->fds[listener->fd_count++] = fd;
    name_listener(listener, fd);
    if (listener->address.any.sa_family != AF_UNIX) {
        set_inherited_options(fd);
    }
    return LISTENER_OPEN;
}

void listener_stop(const struct listener *listener, size_t worker_index)
{
    if (!listener->is_adopted) {
        (void)shutdown(listener_fd(listener, worker_index), SHUT_RDWR); // the fd stays ours
    }
}

void listener_close(struct listener *listener)
{
    struct stat about;
    const char *path = listener->address.local.sun_path;
    if (listener->made_path && lstat(path, &about) == 0 && about.st_dev == listener->device
        && about.st_ino == listener->inode) { // not a successor's
        (void)unlink(path);
    }
    listener->made_path = false;
    for (size_t i = 0; i < listener->fd_count; i++) {
        (void)close(listener->fds[i]);
    }
    listener->fd_count = 0;
}
