/* SPDX-License-Identifier: MIT
 *
 * Who of those that share a file, or memory, is alive. The kernel knows, by the file itself.
 *
 *     struct membership_wait wait = {.for_ns = MEMBERSHIP_JOIN_NS};
 *     do {
 *         membership_fork_lock();
 *         is_member = membership_begin(&members, &is_alone)
 *                     && ... // nobody else joins or leaves meanwhile
 *                     && membership_join(&members);
 *         membership_fork_unlock();
 *     } while (!is_member && membership_wait(&wait));
 *
 * A **member** is one opening of the file by one process. Its **id** is a random number that no other member ever
 * has. It holds an open file description lock (fcntl(2), F_OFD_SETLK) on one byte of the file: the one whose offset
 * is its id, far behind the end. Whether a member is alive is whether its byte is locked. So it does not matter what
 * number a process has, in which container, or what a container says of the kernel's boot; a member that is stopped
 * still holds its byte; and an id that a copy of the file kept, or a file that lay on a disk while the machine was off,
 * is that of a dead member.
 *
 * The lock belongs to an open file description, which lives as long as something refers to it. Only a mapping
 * does, which fork() does not pass on (MADV_DONTFORK). So the lock ends with the memory of this very process, at
 * kill -9 too: neither a child of a fork that goes on nor a program that closes all its file descriptors
 * changes that. A child joins as a member of its own, when it first uses the memory.
 *
 * One more byte is the **gate**: a process that joins or leaves holds it meanwhile. So one that finds itself alone
 * behind the gate is alone, and stays alone until it opens the gate. That takes microseconds, but for one that is
 * stopped, or makes a large file new. The others try again, for a bounded time and without the lock that keeps fork()
 * waiting: a descriptor that was opened to ask for the gate is closed before that.
 *
 * Not covered: a process that is started by a bare clone(2), without fork(), in the few microseconds in which
 * another thread joins inherits the descriptors of that, and keeps its member alive.
 *
 * Threads: single owner, but for membership_is_alive() and membership_open_file(), which are thread-safe. */
#ifndef WEIR_PLATFORM_MEMBERSHIP_H
#define WEIR_PLATFORM_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/mapping.h"

/* All ids are even, and behind every file: 16 TiB are 2^44. */
#define MEMBERSHIP_GATE   (UINT64_C(1) << 60)
#define MEMBERSHIP_ID_MIN (UINT64_C(1) << 61)
#define MEMBERSHIP_ID_MAX ((UINT64_C(1) << 62) - 2)

/* The id in memory that one process has to itself: nobody else is ever asked about. */
#define MEMBERSHIP_ONLY UINT64_C(2)

/*   id             0: this process is no member yet
 *   fd             to ask the kernel with; -1 where there is nobody to ask about
 *   path           NULL, or where the file was opened; the caller's
 *   device, inode  which file it is: a program may have closed our descriptor, and used its number again
 *   gate_fd        held from membership_begin() or _end() on; else -1
 *   hold           keeps the description alive that holds the byte */
struct membership {
    uint64_t id;
    int fd;
    int gate_fd;
    const char *path;
    uint64_t device, inode;
    struct mapping hold;
};

/* Of memory that one process has to itself. */
#define MEMBERSHIP_OF_ONE ((struct membership){.id = MEMBERSHIP_ONLY, .fd = -1, .gate_fd = -1})

/* Begins with a file that is open as `fd`, of which the caller keeps its own. False, with errno, if there are no
 * more descriptors. membership_close() releases it. */
bool membership_open(struct membership *members, int fd, const char *path);

/* Opens the same file once more, whatever name it has or has lost: a description of its own, which is the caller's.
 * -1, with errno. */
int membership_open_file(const struct membership *members);

/* In the child of a fork: what the parent held is the parent's. */
void membership_forget(struct membership *members);

/* Keeps fork() waiting, and every other thread of this process that joins or leaves: a child must not inherit a
 * descriptor that holds a byte. The thread cannot be cancelled meanwhile. To be held around all functions below but
 * membership_is_alive() and membership_open_file(). */
void membership_fork_lock(void);
void membership_fork_unlock(void);

/* Holds the gate. *is_alone: there is no member. False, with errno. EAGAIN: another process holds the gate. ENOTSUP:
 * this kernel, or emulator, has no such locks, or would pass them on to children. */
bool membership_begin(struct membership *members, bool *is_alone);

/* Becomes a member, and opens the gate. False, with errno: it is none, and the gate is open. */
bool membership_join(struct membership *members);

/* Is a member no longer, and holds the gate. *is_alone as above. False, with errno, as membership_begin(): it may be
 * tried again. */
bool membership_end(struct membership *members, bool *is_alone);

/* Is a member no longer, as one that died. */
void membership_drop(struct membership *members);

/* How long to try again. One that joins has to; one that leaves without the gate only leaves the next one some work. */
#define MEMBERSHIP_JOIN_NS  UINT64_C(7000000000)
#define MEMBERSHIP_LEAVE_NS UINT64_C(1000000000)

/*   for_ns    all in all, since the first time
 *   until_ns  0 before that
 *   pause_ns  the last pause */
struct membership_wait {
    uint64_t for_ns;
    uint64_t until_ns;
    uint64_t pause_ns;
};

/* After a function above has failed: true, after a pause, if it is to be tried again. False, with errno, if that does
 * not help, or ETIMEDOUT. To be called without the lock. The thread cannot be cancelled in here. */
bool membership_wait(struct membership_wait *wait);

/* What errno means after any function here, for a sentence that has said what cannot be done. */
const char *membership_explain(int error);

/* Opens the gate, if it is held, and releases everything. */
void membership_close(struct membership *members);

/* Whether the member with this id is alive; where the kernel cannot be asked any longer, true. */
bool membership_is_alive(const struct membership *members, uint64_t id);

#endif
