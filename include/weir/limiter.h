/* SPDX-License-Identifier: MIT
 *
 * A limiter: many buckets by key, in bounded memory, shared by all threads of a process; or in a
 * file, shared by all processes of a host.
 *
 *     struct weir_limiter *limiter;
 *     struct weir_rule rule;
 *     struct weir_error error;
 *     if (weir_limiter_open(&limiter, NULL, &error) == WEIR_OK
 *         && weir_rule_from_text(&rule, limiter, "10/s", &error) == WEIR_OK) {
 *         struct weir_decision decision =
 *             weir_limiter_take(limiter, &rule, "login:alice", 11, WEIR_UNIT);
 *     }
 *
 * The limiter never stores a key, only a keyed hash of it. A bucket is known by the limit (kind,
 * rate in lowest terms, capacity) and the key: "10/s" and "600/min capacity=10" share their
 * buckets. So put what you protect into the key: "login:alice". */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/decision.h"
#include "weir/limit.h"
#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_KEY_BYTES_MAX    65535                 /* a key, over the wire: 1 .. this many */
#define WEIR_MEMORY_BYTES_MIN UINT64_C(65536)       /* the smallest table */
#define WEIR_MEMORY_BYTES_MAX (UINT64_C(1) << 44)   /* the largest, 16 TiB */
#define WEIR_MEMORY_BYTES     (UINT64_C(256) << 20) /* unless said */
#define WEIR_FILE_BYTES       (UINT64_C(16) << 20)  /* a new file, unless said */
#define WEIR_EVENTS_BYTES_MIN UINT64_C(4096)        /* for the events of windows: the least, */
#define WEIR_EVENTS_BYTES_MAX (UINT64_C(1) << 40)   /* and the most, 1 TiB */
#define WEIR_WAITING_ALL      UINT64_C(100000) /* who may wait at once in all lines, unless said */

struct weir_limiter;

/* Opens stores of one scheme: a library that brings one says what its driver is called. */
struct weir_store_driver;

/* All zeroes is a good configuration.
 *   memory_bytes  what the buckets may use, with all that is kept beside them but the events of
 *                 windows; 0 means WEIR_MEMORY_BYTES, for a file what it has, or WEIR_FILE_BYTES for
 *                 a new one. In memory rounded down to whole stripes. An idle limiter is small; from
 *                 64 MiB on private memory comes in huge pages of 2 MiB where the kernel has them, so
 *                 that about a thousand keys touch most of it.
 *   waiting_max   how many may stand in line at once, in all lines together; 0 means
 *                 WEIR_WAITING_ALL
 *   seed          of the keyed hash; all zeroes means one from the operating system. Give one only
 *                 for tests: whoever knows it can make keys collide. A file keeps the one it was
 *                 made with.
 *   store         where the buckets live, a URL; NULL means "memory:". Read during the call only.
 *       memory:              private to this process. After fork() the child must not use it: there
 *                            on_error of the limit answers, and weir_limiter_status() says what to
 *                            open instead
 *       memory:?shared=yes   shared with the processes that this one forks after opening it
 *       file:/path           shared by all processes that open it, and there when they have ended
 *                            and when the machine has started anew. The file is made if there is
 *                            none, with all of its space. %XX in the path is a byte.
 *       options              ?name=value, further ones after &. size=64M is for memory_bytes 0,
 *                            events=16M for events_bytes 0: a file has to be of these sizes, or to have
 *                            been when it was made. For a file: mode=0660, of a new one, shares it
 *                            with a group (0600 unless said); flush=10s writes it to its disk so
 *                            often, see below
 *   events_bytes  what the events of limits of kind `window` may use beside that, rounded down to
 *                 256 bytes; 0 means a quarter of the memory for buckets, for a file what it has.
 *                 In memory what is not used costs nothing
 *   drivers       of stores that libweir itself does not know: an array that ends with NULL; NULL means none.
 *                 Read during the call only; the drivers themselves stay as long as the limiter
 *   caller_clock  only decisions _at() a time will be asked for. A file is made for such a clock of
 *                 the caller's, or for its own, and refuses the other kind.
 *
 * A file must be on a disk of this host: NFS and its like are refused. Whoever may write it can
 * make those who have it open crash, or worse: share it with whom you trust. Who cuts it short
 * while it is open causes a SIGBUS in all processes that use it, as with every mapped file.
 * The kernel writes it to the disk within about half a minute; what a loss of power takes is at
 * most what was charged since then. With flush=10s one take every 10 s waits until all of it is on
 * the disk. */
struct weir_limiter_config {
    uint64_t memory_bytes;
    uint64_t waiting_max;
    uint64_t seed[2];
    const char *store;
    bool caller_clock;
    uint64_t events_bytes;
    const struct weir_store_driver *const *drivers;
};

/* Opens a limiter. `config` may be NULL.
 *   WEIR_OK          *limiter is yours; weir_limiter_close() releases it
 *   WEIR_E_SYNTAX    `store` is no URL; error->offset says where
 *   WEIR_E_RANGE     memory_bytes is outside WEIR_MEMORY_BYTES_MIN .. _MAX, or events_bytes outside
 *                    WEIR_EVENTS_BYTES_MIN .. _MAX
 *   WEIR_E_FILE      the file is not a weir's, or of another version, size or kind, cut short,
 *                    damaged, on a file system that hosts share, or can be written by everybody
 *   WEIR_E_NO_MEMORY the mapping was refused
 *   WEIR_E_SYSTEM    no random seed; the file cannot be opened or made; errno is in the message
 * On failure *limiter is NULL and no file has been made. `error` may be NULL. Thread-safe. */
WEIR_MUST_USE enum weir_status weir_limiter_open(struct weir_limiter **limiter,
                                                 const struct weir_limiter_config *config,
                                                 struct weir_error *error);

/* WEIR_OK, or why nothing can be decided in this process, so that on_error of each limit answers: WEIR_FAILED, or
 * under on_error=allow WEIR_ALLOWED.
 *   WEIR_E_FORKED  the buckets are private to the process that opened them, and this is its child
 *   WEIR_E_FILE    they have moved to another file, which cannot be opened from here
 * `error` may be NULL. Thread-safe. */
enum weir_status weir_limiter_status(const struct weir_limiter *limiter, struct weir_error *error);

/* What time it is for the limiter's buckets, in nanoseconds: weir_clock_now_ns() in memory; in a
 * file the time since it was made, about, that goes on across reboots. Thread-safe. */
uint64_t weir_limiter_now_ns(const struct weir_limiter *limiter);

/* Releases everything; no other call may be running. NULL is fine. */
void weir_limiter_close(struct weir_limiter *limiter);

/* A limit as one limiter knows it: compiled, with the hash key that keeps its buckets apart from
 * those of every other limit. Plain: copy it, share it between threads, forget it. Good for that
 * limiter only. */
struct weir_rule {
    struct weir_limit limit;
    uint64_t hash_key[2];
};

/* Binds a limit to a limiter. Never fails. Thread-safe. */
void weir_rule_init(struct weir_rule *rule, const struct weir_limiter *limiter,
                    const struct weir_limit *limit);

/* As weir_rule_init(), but the bucket's identity is (`name`, key) instead of (numbers, key): it
 * keeps its time until empty when the numbers change. `name` is any bytes, for example
 * "throttle". */
void weir_rule_init_named(struct weir_rule *rule, const struct weir_limiter *limiter,
                          const struct weir_limit *limit, const void *name, size_t name_len);

/* weir_limit_from_text() and weir_rule_init() in one; statuses of the former. On failure *rule is all zeroes,
 * and every take with it is an error: whatever is asked with a rule of zeroes is answered WEIR_FAILED, and
 * charges nothing. */
WEIR_MUST_USE enum weir_status weir_rule_from_text(struct weir_rule *rule,
                                                   const struct weir_limiter *limiter,
                                                   const char *text, struct weir_error *error);

/* What can be asked; the first five as of one bucket (bucket.h). Another number is answered by an error. */
enum weir_operation {
    WEIR_TAKE = 0, /* charge the cost if it fits */
    WEIR_CAN_TAKE, /* what a take would be told now; charges nothing, and blocks nobody */
    WEIR_FILL,     /* charge what fits of the cost, and say what does not */
    WEIR_REFUND, /* give the cost back, soon: see weir_limiter_refund(); of a window, which takes none back, the
                    verdict is error */
    WEIR_SHOW,   /* how it stands */
    WEIR_RESET,  /* empty the bucket; a window forgets its whole log */
    WEIR_BLOCK,  /* lock the key out */
    WEIR_UNBLOCK /* let it in again */
};

/* A blocked key. While a block runs, take, can_take and fill are answered `blocked`, and charge
 * nothing: what a fill brings is all spilled. A cost of 0 passes, and what never fits is never. Show
 * says so too; refund and reset go on as ever, for a block is no part of the bucket. It begins by
 * WEIR_BLOCK, or as the limit says (block=): a take that is refused as limited, or a fill that leaves
 * the bucket full, blocks its key in the same instant. Who meets a block does not prolong it. A later
 * WEIR_BLOCK does if its end is later, and never brings the end forward; WEIR_UNBLOCK ends it. It is
 * over for everybody once the clock, as any thread reads it, has come to its end.
 * A blocked key takes up two slots of the table, until both are free. */

/* What some operations say beyond the decision.
 *   amount       fill: the spill; show: the level; otherwise 0
 *   full         fill: whether the bucket is full at this instant
 *   existed      reset: whether there was a live bucket (a level above zero), and in a queue anything but
 *                the places of those who wait; show: whether there is a live bucket; block and
 *                unblock: whether the key was blocked before
 *   empty_at_ns  show: the store's moment at which the bucket is empty, rounded up; 0 if not
 *                live
 *   waiting      show: how many callers wait in line for this bucket */
struct weir_detail {
    struct weir_amount amount;
    uint64_t empty_at_ns;
    bool full;
    bool existed;
    uint64_t waiting;
};

/* One question. The limiter only reads it, and only during the call.
 *   key         any bytes, 0 or more: the empty key is a key like any other
 *   cost_micro  millionths of a unit; above WEIR_COST_MAX it exceeds every capacity. Show and reset
 *               do not look at it
 *   and_next    this one and the next are decided together, see below
 *   shadow      this limit is only being tried. Its decision still says what it says, so that you can
 *               count what it would have refused, and weir_decision_of_run() leaves it out. Among others
 *               its refusal refuses nothing, and locks nobody out; it is not charged then. A take of it
 *               alone is charged, and locks out, as without. Nobody waits for it
 *   detail      filled if not NULL; after a take or a can_take it says nothing
 *   block_ns    of a block: for how long, 1 .. WEIR_BLOCK_NS_MAX; what is outside is brought inside */
struct weir_request {
    const struct weir_rule *rule;
    const void *key;
    size_t key_len;
    uint64_t cost_micro;
    enum weir_operation operation;
    bool and_next;
    bool shadow;
    struct weir_detail *detail;
    uint64_t block_ns;
};

/* How many limits one take can be under. */
#define WEIR_TOGETHER_MAX 16

/* Decides `count` requests in order, as if one by one, all at one reading of the clock: the fast
 * way, because the memory of all of them is fetched at once (32 or more are best).
 *
 * Several limits in one take: requests in a row of which all but the last say `and_next` are a run, and
 * charged all or not at all.
 *
 *     struct weir_request requests[2] = {
 *         {.rule = &per_user, .key = "alice", .key_len = 5, .cost_micro = WEIR_UNIT, .and_next = true},
 *         {.rule = &for_all, .key = "", .key_len = 0, .cost_micro = WEIR_UNIT}};
 *     struct weir_decision each[2];
 *     int binding;
 *     weir_limiter_decide(limiter, requests, each, 2);
 *     struct weir_decision decision = weir_decision_of_run(requests, each, 2, &binding);
 *
 * Every decision says what its own limit says: one that allows, where another one refuses, is allowed,
 * with the bucket as it is, for nothing was charged. All of a run are takes, or all are can_takes; there
 * are at most WEIR_TOGETHER_MAX; no bucket (rule and key) occurs twice. Otherwise every verdict of the run
 * is error. Where a bucket finds no room in the table, on_full of its own limit answers for it; where the store is
 * out of reach, on_error of each limit. The last
 * request of a call ends its run, whatever it says. If one bucket is busier than the others, it is best
 * named last.
 *
 * Thread-safe: each decision is linearizable, and each run is one decision, among all processes that share
 * the store; only where somebody stands in line for a bucket of a run, the figures of its other buckets
 * may be of another instant of the call. Never allocates; a take of a bucket that exists never locks
 * and makes no system call, but for a take of a window, a refusal that blocks, and one that meets
 * people in line; those, a refund, a reset and a new bucket lock one stripe of the table for an instant,
 * and one that meets people in line locks the lines, too. A run that is charged, or has a window in it, or blocks, locks the stripes of its buckets for
 * an instant, and a take that comes upon one of them in that instant waits for it. A process that dies at
 * any point of it leaves every bucket right, at worst with these costs charged, all or some, and nobody
 * waiting.
 *
 * A store that answers later, one of `drivers`, is another matter: the call sleeps for a round trip, allocates, and
 * the first one starts a thread of the limiter's, which asks for all others and handles no signals. Where the store
 * does not decide, on_error answers after 20 ms or so; while it is known to be away, at once. Of more than 1024
 * requests, or 1 MiB of keys, some runs are asked after others, each part at a reading of the clock of its own; after a
 * part that is not decided, on_error answers the rest. A run with 16 MiB of keys has no room, and on_error answers. */
void weir_limiter_decide(struct weir_limiter *limiter, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count);

/* The same at `now_ns`: of the caller's own clock, or of weir_limiter_now_ns(). One limiter lives
 * by one clock, one file too: do not mix. */
void weir_limiter_decide_at(struct weir_limiter *limiter, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t now_ns);

/* Questions whose answers are collected later: for event loops, which must not sleep, and stores that answer after a
 * round trip. Over memory or a file they are decided at once, and collected in the same way.
 *
 *     struct weir_submission submission = {.requests = requests, .decisions = decisions, .count = 2};
 *     weir_limiter_submit(limiter, &submission);
 *     ...                           // the loop finds weir_limiter_poll_fd() readable
 *     struct weir_submission *done;
 *     while ((done = weir_limiter_collect(limiter)) != NULL) {
 *         ... done->decisions, done->user ...
 *     }
 *
 *   requests, decisions, count  as weir_limiter_decide(). They, their rules and keys stay where they are until the
 *                               submission is collected, as does the submission itself
 *   user                        the caller's
 *   opaque                      weir's */
struct weir_submission {
    const struct weir_request *requests;
    struct weir_decision *decisions;
    size_t count;
    void *user;
    uint64_t opaque[8];
};

/* Readable (POLLIN) as long as an answer waits to be collected, in poll(), epoll and their like; edge-triggered, collect
 * until there is nothing. The limiter's: do not read or close it. -1, with errno, if there is no descriptor to be had.
 * Always the same one in one process. A child of fork() asks for its own: there it is another one, and what its parent
 * has submitted is not collected. Thread-safe. */
int weir_limiter_poll_fd(struct weir_limiter *limiter);

/* Asks, and never sleeps for the store. Where it does not decide, on_error of each limit answers, as above.
 * weir_limiter_close() answers what is still asked, and nobody collects it. Thread-safe. */
void weir_limiter_submit(struct weir_limiter *limiter, struct weir_submission *submission);

/* A submission that is answered, in the order of the answers; NULL: none now. Thread-safe. */
struct weir_submission *weir_limiter_collect(struct weir_limiter *limiter);

/* The one answer to a run, or to a single request, from what was asked and what was decided:
 * weir_decision_of_all() (decision.h) of those that are not in shadow. Where all are, it is allowed, with
 * the figures of the one with the least remaining.
 *   count    1 .. WEIR_TOGETHER_MAX
 *   binding  which request decided; -1 if it is allowed. May be NULL
 * Only reads. Thread-safe. */
struct weir_decision weir_decision_of_run(const struct weir_request *requests,
                                          const struct weir_decision *decisions, size_t count,
                                          int *binding);

/* The single calls: weir_limiter_decide() of one request.
 *
 * A late refund can admit more than the limit promises: what was taken has drained meanwhile, and is given back a
 * second time. Under 10/s, A takes 10 at 0 s, B takes 10 at 1 s, A gives its 10 back, and C takes 10: B and C are 20
 * at one instant, where the limit promises 10. Under a bucket a refund of at most
 * cost - rate * time since the take never does that. */
struct weir_decision weir_limiter_take(struct weir_limiter *limiter, const struct weir_rule *rule,
                                       const void *key, size_t key_len, uint64_t cost_micro);
struct weir_decision weir_limiter_can_take(struct weir_limiter *limiter,
                                           const struct weir_rule *rule, const void *key,
                                           size_t key_len, uint64_t cost_micro);
struct weir_decision weir_limiter_refund(struct weir_limiter *limiter, const struct weir_rule *rule,
                                         const void *key, size_t key_len, uint64_t cost_micro);
struct weir_decision weir_limiter_take_at(struct weir_limiter *limiter,
                                          const struct weir_rule *rule, const void *key,
                                          size_t key_len, uint64_t cost_micro, uint64_t now_ns);

/* Locks a key out of one limit for `block_ns` (1 .. WEIR_BLOCK_NS_MAX), at least: see weir_operation. The
 * decision is what a take is told from now on: blocked, and until when; or error: the table is full of
 * live buckets, and the key is not blocked, unless on_full=evict makes room. Those that wait in line for that bucket are
 * sent away, but for those in a queue.
 * Thread-safe. Never allocates; locks a stripe of the table for an instant. */
struct weir_decision weir_limiter_block(struct weir_limiter *limiter, const struct weir_rule *rule,
                                        const void *key, size_t key_len, uint64_t block_ns);

/* Lets it in again, under a limit of the same numbers: block= is no part of them. True if it was blocked.
 * Thread-safe, likewise. */
bool weir_limiter_unblock(struct weir_limiter *limiter, const struct weir_rule *rule,
                          const void *key, size_t key_len);

/* Takes, and where that would be refused waits in line until it fits, or until `timeout_ns` have
 * passed. First come, first served, among all threads that wait for one bucket; while they do,
 * nobody else's take passes them. Returns at once if the wait would be in vain: the verdict is then
 * limited, and retry_after_ns says after which time this same call would be let in; never, also
 * where even an empty queue would take longer than the timeout; or error (on_full). A block
 * sends everybody away at once, but for those in a queue, who were charged when they came: the
 * verdict is then blocked.
 * In a store that processes share they all stand in one line. One that dies is out of it at that
 * instant, and one that is stopped goes to the back if it does not take its turn within an interval
 * of the limit, or 100 ms if that is longer. There the limiter has a thread of its own from the
 * first wait on, which sleeps until somebody of another process does something about a line of ours;
 * it handles no signals. There is one place for each 6 KiB of the store, and 16384 at most; a take under
 * several limits holds as many as it has limits.
 * At most `waiting_max` wait at once, and of them as many for one bucket as its limit says (waiting=);
 * whoever finds no place is refused. A timeout of 0 is weir_limiter_take(); one above WEIR_SPAN_NS_MAX
 * counts as that. Not for a limiter with a `caller_clock`, which knows no instant at which to wake.
 * Thread-safe. Blocks the calling thread, and no other; the limiter must not be closed meanwhile.
 * Where nobody can wait in a store (of `drivers`), the answer is an error, and nothing is charged.
 * A point of cancellation while it sleeps. A thread that pthread_cancel() ends there gives its place back at
 * once, and those behind it move up. If it was let through at that very instant, the charge stays, as for a
 * thread that is cancelled just after this call. No other call of this header is a point of cancellation. */
struct weir_decision weir_limiter_acquire(struct weir_limiter *limiter,
                                          const struct weir_rule *rule, const void *key,
                                          size_t key_len, uint64_t cost_micro, uint64_t timeout_ns);

/* The same under several limits: one run of `count` requests, takes that are decided together (see
 * weir_limiter_decide()), or a single one; in memory and in stores that processes share. It stands in the
 * lines of those limits that refuse it, and holds up nobody elsewhere; it is charged, all or nothing, when it
 * is the first in these lines and all limits let it in at one instant. How long several lines take
 * together nobody knows in advance, so it may stand there and be refused at its deadline, and
 * retry_after_ns is then a lower bound. With a queue among them it is charged likewise, and returns at its
 * egress. Limits in shadow are not waited for. The decisions are as many as the requests, as those of
 * weir_limiter_decide(); make one of them by weir_decision_of_run(). */
void weir_limiter_acquire_all(struct weir_limiter *limiter, const struct weir_request *requests,
                              struct weir_decision *decisions, size_t count, uint64_t timeout_ns);

/* What has happened in the table so far. */
struct weir_limiter_stats {
    uint64_t memory_bytes;      /* mapped for buckets, all but the events of windows */
    uint64_t slot_count;        /* buckets that fit at most */
    uint64_t used_count;        /* slots that have ever held a bucket */
    uint64_t reused_count;      /* buckets that were forgotten, empty, for another one */
    uint64_t full_count;        /* requests that found no slot and were answered by on_full */
    uint64_t events_bytes;      /* mapped for the events of windows */
    uint64_t events_used_bytes; /* of them, what holds events */
    uint64_t events_full_count; /* requests that found no room for an event: on_full answered */
    uint64_t evicted_count;     /* buckets that were dropped, not empty, under on_full=evict */
};

/* Thread-safe; the counters are read one by one, while others change them. */
void weir_limiter_stats(const struct weir_limiter *limiter, struct weir_limiter_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
