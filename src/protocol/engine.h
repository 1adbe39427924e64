/* SPDX-License-Identifier: MIT
 *
 * A protocol is an engine: bytes in, bytes out, a state. It owns no socket and reads no clock; what
 * it needs of the world around it the server lends it as a `struct service`.
 *
 *     size_t used;
 *     enum engine_state state = ops->feed(session, service, input, &output, &used);
 *
 * Each protocol is one folder, and ends in one constant `struct engine_ops`. */
#ifndef WEIR_PROTOCOL_ENGINE_H
#define WEIR_PROTOCOL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/bytes.h"
#include "limiter/names/names.h"
#include "limiter/rule_cache.h"
#include "protocol/buffer.h"
#include "store/progress.h"
#include "weir/limiter.h"

enum protocol { PROTOCOL_RESP, PROTOCOL_HTTP, PROTOCOL_COUNT };
/* The longest block that can be said over the wire. */
#define ENGINE_BLOCK_MS_MAX (WEIR_BLOCK_NS_MAX / 1000000)

enum { VERDICT_COUNT = 5 }; // indexed by enum weir_verdict

/* What one worker counts. Written by that worker alone, with relaxed stores; read by whoever
 * answers /metrics or INFO. Plain uint64_t: use counter_add(). */
struct counters {
    /* Takes, can-takes, fills, refunds, shows under limits that were written out. */
    uint64_t decisions[PROTOCOL_COUNT][VERDICT_COUNT];
    uint64_t requests[PROTOCOL_COUNT];     // commands or HTTP requests, all kinds
    uint64_t bad_requests[PROTOCOL_COUNT]; // answered with an error
    uint64_t auth_failures[PROTOCOL_COUNT];
};

static inline void counter_add(uint64_t *counter, uint64_t amount)
{
    /* Relaxed: a statistic with one writer; no other memory depends on it. */
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + amount,
                     __ATOMIC_RELAXED);
}

/* The same of one limit that has a name, by one worker. */
struct name_counts {
    uint64_t decisions[PROTOCOL_COUNT][VERDICT_COUNT]; // as they were answered
    uint64_t shadow_refusals[VERDICT_COUNT];           // that were answered "allowed"
};

/* An address, or an IPv4 one mapped into IPv6, and the length of its prefix in bits. */
struct cidr {
    uint8_t address[16];
    unsigned prefix_bits;
};

enum { TRUSTED_PROXY_COUNT_MAX = 64, HTTP_HOST_COUNT_MAX = 64 };

enum header_preset {
    HEADERS_DRAFT,        // RateLimit, RateLimit-Policy (draft 11): the default
    HEADERS_X_RATELIMIT,  // X-RateLimit-Limit, -Remaining, -Reset
    HEADERS_USED,         // X-Shopify-Shop-Api-Call-Limit: used/capacity
    HEADERS_RATE_LIMITED, // X-Rate-Limited-For: seconds
    HEADERS_NONE
};

/* What the person who started the server chose, as far as protocols care. Read-only. */
struct service_config {
    const char *password; // NULL: none is wanted
    size_t password_len;
    const char *redis_version; // what HELLO and INFO call redis_version
    enum header_preset headers;
    bool retry_after_date;   // Retry-After as an HTTP-date
    bool disclose_keys;      // problem details may say the key
    unsigned refused_status; // of GET /v1/check: 429 unless said
    struct cidr trusted_proxies[TRUSTED_PROXY_COUNT_MAX];
    size_t trusted_proxy_count;
    /* Names of this server in Host and Origin, without a port. */
    const char *http_hosts[HTTP_HOST_COUNT_MAX];
    size_t http_host_count;
};

struct service;

/* What an engine may ask of the server. Any thread that runs an engine may call these. */
struct service_ops {
    /* Appends the body of /metrics, or of INFO (`section` NULL or lower case: all or one). */
    void (*write_metrics)(struct service *service, struct buffer *output);
    void (*write_info)(struct service *service, struct buffer *output, const char *section);
    /* Why /healthz answers 503, as a line; NULL: all is well. */
    const char *(*sickness)(struct service *service);
    /* What /healthz says beside "ok", as a line: requests are answered, but not as they should be. NULL: nothing. */
    const char *(*worry)(struct service *service);
    /* How long this feed() has lasted, by the machine's clock, with --test-clock too. Never less than before in
     * the same feed. Some 20 ns: not for every request. */
    uint64_t (*worked_ns)(struct service *service);
    /* A request was answered with an error. NULL: nobody wants to know.
     *   reason  a word: "invalid", "no_route", "not_found", ...
     *   why     a sentence for the log, without keys: see quotes.h */
    void (*note_bad_request)(struct service *service, enum protocol protocol, const char *reason,
                             const char *why);
    /* Asks a store that may answer later; called while service->asks_later, see service_decide().
     *   DECIDED  the decisions, and the details of requests that want them, are there
     *   PENDING  they are asked for, and nothing of the requests is needed any more. feed() returns ENGINE_ASKING. When
     *            they are there, `answers_left` says how many, and feed() gets the same input again; each call then
     *            is DECIDED, and takes its share away from `answers_left` */
    enum progress (*decide)(struct service *service, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count);
    /* A take that waits up to `wait_ns` (1 or more) for its turn; or a run of
     * `count` requests. False: the decisions, as many, are the answer. True: the connection stands in
     * line now; feed() then returns ENGINE_WAITING, having used the request, and the answer comes by
     * resume(). */
    bool (*wait)(struct service *service, const struct weir_request *requests, size_t count,
                 uint64_t wait_ns, struct weir_decision *decisions);
    /* The clock that stands still, and moves forwards only. NULL without --test-clock. set() and
     * advance() return false if that would be backwards or beyond WEIR_NOW_NS_MAX; both renew
     * service->now_ns. */
    bool (*test_clock_set)(struct service *service, uint64_t now_ns);
    bool (*test_clock_advance)(struct service *service, uint64_t by_ns);
};

/* What the server lends to an engine while it runs: one per worker. */
struct service {
    const struct service_ops *ops;
    const struct service_config *config;
    struct weir_limiter *limiter;
    struct rule_cache *rules;
    const struct names *names;              // of the configuration; the same while an engine runs
    struct name_counts *const *name_counts; // by the limit's index among them
    struct counters *counters;
    void *scratch[PROTOCOL_COUNT]; // one per protocol: its working memory, see scratch_bytes
    uint64_t now_ns;               // the reading of the store's clock of this wake-up
    bool asks_later;               // the store may answer later
    size_t answers_left;           // to what the connection has asked: feed() asks it again
    const char *failure;   // why the last wait() or resume() was answered with an error; or NULL
    const char *undecided; // why on_error answers what was asked last; NULL: it was decided
    int64_t wall_s;        // seconds since 1970 (UTC), for HTTP-dates
};

/* Has requests decided, as weir_limiter_decide_at() does. PENDING: the engine forgets them, puts its session back to
 * where the batch began, and returns ENGINE_ASKING. */
static inline enum progress service_decide(struct service *service,
                                           const struct weir_request *requests,
                                           struct weir_decision *decisions, size_t count)
{
    if (!service->asks_later) {
        weir_limiter_decide_at(service->limiter, requests, decisions, count, service->now_ns);
        return DECIDED;
    }
    service->undecided = NULL;
    return count > 0 ? service->ops->decide(service, requests, decisions, count) : DECIDED;
}

/* Who is at the other end. Unix sockets have no address. */
struct peer {
    bool has_address;
    uint8_t address[16]; // IPv4 mapped into IPv6
    uint64_t id;         // counts up from 1 over the server's life (CLIENT ID)
    char name[64];       // "127.0.0.1:4711" or "unix", for logs and CLIENT INFO
    char local_name[64]; // the listener's
};

enum engine_state {
    ENGINE_OPEN, // go on
    ENGINE_PAUSED, // send what is in `output`, let others go on, then feed the rest: it may be complete
    ENGINE_WAITING, // a take stands in line: send what is in `output`, and feed no more until resume()
    ENGINE_ASKING, // a store is asked: send what is in `output`, and feed the rest with its answers
    ENGINE_CLOSE   // send what is in `output`, then close
};

/* The most input that a server keeps of one connection while a request is incomplete. An engine
 * refuses a request that would need more, before it needs it. */
enum { ENGINE_INPUT_BYTES_MAX = 256 * 1024 };

/* Output beyond which an engine may stop before it has handled every complete request: small
 * requests with large answers (INFO, /metrics) then cannot pile up. The server sends what is there
 * and feeds the rest again. */
enum { ENGINE_OUTPUT_BYTES_PLENTY = 256 * 1024 };

/* The longest wait that a client may ask for: 24 hours. */
enum { ENGINE_WAIT_MS_MAX = 24 * 60 * 60 * 1000 };

struct engine_ops {
    const char *name; // "resp", "http": as in logs and metrics
    enum protocol protocol;
    const char
        *too_late; // what to send before a connection ends whose request stayed incomplete, or NULL
    size_t session_bytes; // zeroed by the server before open()
    size_t scratch_bytes; // working memory, one per worker, zeroed at start; 0: none

    void (*open)(void *session, const struct peer *peer);

    /* Handles every complete request at the front of `input`: parses all, decides all in one batch,
     * appends the replies in order to `output`. Stops early once `output` holds
     * ENGINE_OUTPUT_BYTES_PLENTY, or when it has worked for long enough (protocol/pace.h): ENGINE_PAUSED.
     *   used    bytes of input that are done with; may be none where it pauses
     * Never blocks. Called again with the rest and more when more has arrived.
     *
     * A batch that is PENDING has changed, written and counted nothing: `used` ends in front of it, or of the command
     * (EXEC, DEL) that it is a part of. With service->answers_left, feed() asks the same of the same input, and stops
     * behind the last answer: ENGINE_PAUSED if there is more, because that may be under another configuration by now. */
    enum engine_state (*feed)(void *session, struct service *service, struct bytes input,
                              struct buffer *output, size_t *used);

    /* The take for which feed() returned ENGINE_WAITING is decided, by as many decisions as it has
     * requests: appends its answer. Then the rest of the input is fed, unless this returns
     * ENGINE_CLOSE. */
    enum engine_state (*resume)(void *session, struct service *service,
                                const struct weir_decision *decisions, struct buffer *output);

    /* True as long as the client has not shown the password, where one is wanted: it is a stranger. */
    bool (*is_stranger)(const void *session, const struct service *service);

    /* Which transaction is open: another number for each; 0: none. NULL: the protocol has no transactions. */
    uint32_t (*transaction)(const void *session);

    /* The memory that a session holds beside itself, for the server's bounds. NULL: always none. */
    size_t (*held_bytes)(const void *session);

    /* The session ends; releases what it holds. */
    void (*close)(void *session);
};

extern const struct engine_ops RESP_ENGINE;
extern const struct engine_ops HTTP1_ENGINE;

#endif
