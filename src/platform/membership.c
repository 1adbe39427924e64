/* SPDX-License-Identifier: MIT */
#include "platform/membership.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/time_units.h"
#include "platform/random.h"
#include "weir/clock.h"

/* What one that holds the gate takes; and how late its opening may be noticed. */
#define PAUSE_NS_MIN (50 * NS_PER_US)
#define PAUSE_NS_MAX (10 * NS_PER_MS)

/* ---- no fork meanwhile ---- */

/* The only state of the library that is not a caller's. It has to be the process's, because fork() is: a child that
 * inherited a descriptor in the middle of joining would keep the parent's member alive after its death. */
static pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int cancel_state; // of the thread that holds it

static void lock_before_fork(void)
{
    (void)pthread_mutex_lock(&fork_mutex);
}

static void unlock_after_fork(void)
{
    (void)pthread_mutex_unlock(&fork_mutex);
}

/* Without memory for the handlers a fork may come in between; that is all. */
static void handle_forks(void)
{
    (void)pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);
}

void membership_fork_lock(void)
{
    int before;
    (void)pthread_once(&fork_once, handle_forks);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    (void)pthread_mutex_lock(&fork_mutex);
    cancel_state = before;
}

void membership_fork_unlock(void)
{
    int before = cancel_state;
    (void)pthread_mutex_unlock(&fork_mutex);
    (void)pthread_setcancelstate(before, NULL);
}

/* ---- one file ---- */

static bool is_the_file(const struct membership *members, int fd)
{
    struct stat status;
    return fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == members->device
           && status.st_ino == members->inode;
}

/* By its name only where there is no /proc. */
int membership_open_file(const struct membership *members)
{
    char path[32];
    int flags = O_RDWR | O_CLOEXEC | O_NOCTTY;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", members->fd);
    bool is_open = is_the_file(members, members->fd);
    int fd = is_open ? open(path, flags) : -1;
    errno = is_open ? errno : ESTALE;
    if (fd < 0 && members->path != NULL) {
        fd = open(members->path, flags);
    }
    if (fd >= 0 && !is_the_file(members, fd)) {
        (void)close(fd);
        errno = ESTALE;
        return -1;
    }
    return fd;
}

bool membership_open(struct membership *members, int fd, const char *path)
{
    struct stat status;
    *members = MEMBERSHIP_OF_ONE;
    members->id = 0;
    members->path = path;
    if (fstat(fd, &status) != 0) {
        return false;
    }
    members->device = status.st_dev;
    members->inode = status.st_ino;
    members->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return members->fd >= 0;
}

void membership_forget(struct membership *members)
{
    members->id = 0;
    members->hold = (struct mapping){0}; // not mapped here
}

/* ---- bytes ---- */

/* `length` bytes; 0 is to the end of all offsets. */
static struct flock bytes_of(short type, uint64_t from, uint64_t length)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)length};
}

static bool set_lock(int fd, int command, short type, uint64_t from, uint64_t length)
{
    int result;
    do {
        struct flock bytes = bytes_of(type, from, length);
        result = fcntl(fd, command, &bytes);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EINVAL) {
        errno = ENOTSUP; // Linux before 3.15, or a kernel that only looks like it
    } else if (result != 0 && errno == EACCES) {
        errno = EAGAIN; // POSIX lets a system choose
    }
    return result == 0;
}

enum answer { OPEN, LOCKED, UNKNOWN };

/* Whether another description holds this byte. */
static enum answer ask(int fd, uint64_t byte)
{
    struct flock bytes = bytes_of(F_WRLCK, byte, 1);
    if (fcntl(fd, F_OFD_GETLK, &bytes) != 0) {
        return UNKNOWN;
    }
    return bytes.l_type != F_UNLCK ? LOCKED : OPEN;
}

/* ---- the gate ---- */

static void open_gate(struct membership *members)
{
    if (members->gate_fd >= 0) {
        (void)close(members->gate_fd); // and whatever else this description held
    }
    members->gate_fd = -1;
}

static bool fail_at_gate(struct membership *members)
{
    int why = errno;
    open_gate(members);
    errno = why;
    return false;
}

static bool hold_gate(struct membership *members, bool *is_alone)
{
    members->gate_fd = membership_open_file(members);
    if (members->gate_fd < 0
        || !set_lock(members->gate_fd, F_OFD_SETLK, F_WRLCK, MEMBERSHIP_GATE, 1)) {
        return fail_at_gate(members);
    }
    *is_alone = set_lock(members->gate_fd, F_OFD_SETLK, F_WRLCK, MEMBERSHIP_ID_MIN, 0);
    return !*is_alone || set_lock(members->gate_fd, F_OFD_SETLK, F_UNLCK, MEMBERSHIP_ID_MIN, 0)
           || fail_at_gate(members);
}

/* A child of a fork may have closed all descriptors before it joins. */
static bool has_descriptor(struct membership *members)
{
    if (is_the_file(members, members->fd)) {
        return true;
    }
    int fd = membership_open_file(members);
    int kept = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    members->fd = kept >= 0 ? kept : members->fd;
    return kept >= 0;
}

bool membership_begin(struct membership *members, bool *is_alone)
{
    return has_descriptor(members) && hold_gate(members, is_alone);
}

/* ---- joining ---- */

static bool choose_id(uint64_t *id)
{
    if (!random_fill(id, sizeof *id)) {
        return false;
    }
    *id = (*id & (MEMBERSHIP_ID_MIN - 2)) | MEMBERSHIP_ID_MIN;
    return true;
}

/* Maps a page that nobody ever touches, for the reference to the description. An emulator that accepts advice that
 * is none does not follow any (qemu-user): a child would get this mapping. */
static bool hold_description(struct mapping *hold, int fd)
{
    enum { NO_ADVICE = -1 };
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page_bytes, PROT_NONE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return false;
    }
    *hold = (struct mapping){at, page_bytes, at, page_bytes};
    if (madvise(at, page_bytes, MADV_DONTFORK) == 0 && madvise(at, page_bytes, NO_ADVICE) != 0) {
        return true;
    }
    mapping_close(hold);
    errno = ENOTSUP;
    return false;
}

bool membership_join(struct membership *members)
{
    struct mapping hold = {0};
    uint64_t id;
    if (!choose_id(&id) || !set_lock(members->gate_fd, F_OFD_SETLK, F_WRLCK, id, 1)
        || !hold_description(&hold, members->gate_fd)
        || !set_lock(members->gate_fd, F_OFD_SETLK, F_UNLCK, MEMBERSHIP_GATE, 1)) {
        int why = errno;
        mapping_close(&hold);
        errno = why;
        return fail_at_gate(members);
    }
    open_gate(members); // only the mapping holds it now
    if (ask(members->fd, id) != LOCKED) {
        mapping_close(&hold);
        errno = ENOTSUP; // not here, then
        return false;
    }
    members->id = id;
    members->hold = hold;
    return true;
}

void membership_drop(struct membership *members)
{
    members->id = 0;
    mapping_close(&members->hold);
}

bool membership_end(struct membership *members, bool *is_alone)
{
    membership_drop(members);
    return hold_gate(members, is_alone);
}

void membership_close(struct membership *members)
{
    open_gate(members);
    if (is_the_file(members, members->fd)) {
        (void)close(members->fd);
    }
    members->fd = -1;
}

/* ---- waiting ---- */

/* fcntl() itself could wait for the gate, but neither for a bounded time nor without the descriptor. */
bool membership_wait(struct membership_wait *wait)
{
    if (errno != EAGAIN) {
        return false;
    }
    uint64_t now_ns = weir_clock_now_ns();
    if (wait->until_ns == 0) {
        wait->until_ns = now_ns + wait->for_ns;
        wait->pause_ns = PAUSE_NS_MIN;
    } else if (now_ns >= wait->until_ns) {
        errno = ETIMEDOUT;
        return false;
    }
    struct timespec pause = {.tv_nsec = (long)wait->pause_ns};
    int before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    (void)nanosleep(&pause, NULL);
    (void)pthread_setcancelstate(before, NULL);
    wait->pause_ns = 2 * wait->pause_ns < PAUSE_NS_MAX ? 2 * wait->pause_ns : PAUSE_NS_MAX;
    return true;
}

const char *membership_explain(int error)
{
    switch (error) {
    case ENOTSUP: return "this kernel, or emulator, does not tell which of its users are alive";
    case ETIMEDOUT:
        return "another process begins or ends to use it, or makes it new, and has not gone on "
               "for seconds";
    default: return strerror(error);
    }
}

/* ---- asking ---- */

/* By a descriptor of our own, where the program has closed the one that we had. */
static bool is_alive_by_name(const struct membership *members, uint64_t id)
{
    int fd = membership_open_file(members);
    bool is_alive = fd < 0 || ask(fd, id) != OPEN;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_alive;
}

bool membership_is_alive(const struct membership *members, uint64_t id)
{
    if (id == members->id) {
        return true; // a lock of our own is none to us
    }
    if (id % 2 != 0 || id < MEMBERSHIP_ID_MIN || id > MEMBERSHIP_ID_MAX) {
        return false; // nobody's: the memory is damaged
    }
    enum answer answer = ask(members->fd, id);
    if (answer == OPEN && is_the_file(members, members->fd)) {
        return false;
    }
    return answer == LOCKED || is_alive_by_name(members, id);
}
