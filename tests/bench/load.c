/* SPDX-License-Identifier: MIT
 *
 * Load for a server under measurement: fixed bytes with a random key in them, many connections,
 * a pipeline; counts the replies. It stays connected and obeys standard input: each line says
 * for how many seconds to run.
 *
 *     bench_load ADDRESS REQUEST_FILE CONNECTIONS PIPELINE KEYS
 *
 * ADDRESS is a port of 127.0.0.1 or the path of a unix socket. Every '#' in the request becomes a
 * digit of the key (0 .. KEYS - 1), the same key wherever digits stand. With "sweep" instead of
 * seconds it sends each key once, in order. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

enum {
    CONNECTION_MAX = 1024,
    REQUEST_MAX = 2048,
    PIPELINE_MAX = 256,
    DIGITS = 8, // of a key: the '#' of one run of digits
    INPUT_BYTES = 128 * 1024
};

struct connection {
    int fd;
    unsigned waiting; // replies still to come
    size_t length;    // of the incomplete reply at the front of `input`
    char *input;
};

static struct connection connections[CONNECTION_MAX];
static char request[REQUEST_MAX];
static size_t request_length;
static char output[REQUEST_MAX * PIPELINE_MAX];
static unsigned pipeline;
static uint64_t key_count, random_state = 4711, sweep_next, sweep_end;
static uint64_t reply_count, allowed_count;
/* As of the last refusal: until then more was asked for than could pass. */
static uint64_t start_ns, refused_ns, refused_allowed_count;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int connect_to(const char *address)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in internet = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)atoi(address))};
    bool is_unix = address[0] == '/';
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    int on = 1;
    snprintf(local.sun_path, sizeof local.sun_path, "%s", address);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int failed = is_unix ? connect(fd, (struct sockaddr *)&local, sizeof local)
                         : connect(fd, (struct sockaddr *)&internet, sizeof internet);
    if (failed) {
        fail(address);
    }
    return fd;
}

static void write_key(char *at, uint64_t key)
{
    char digits[DIGITS];
    for (int i = DIGITS - 1; i >= 0; i--, key /= 10) {
        digits[i] = (char)('0' + key % 10);
    }
    for (size_t i = 0, digit = 0; i < request_length; i++) {
        if (request[i] == '#') {
            at[i] = digits[digit++ % DIGITS];
        }
    }
}

/* Sends a whole pipeline. False when a sweep has nothing left. */
static bool send_batch(struct connection *connection)
{
    unsigned count = 0;
    for (; count < pipeline; count++) {
        uint64_t key;
        if (sweep_end != 0) {
            if (sweep_next == sweep_end) {
                break;
            }
            key = sweep_next++;
        } else {
            key = random_below(&random_state, key_count);
        }
        char *at = output + count * request_length;
        memcpy(at, request, request_length);
        write_key(at, key);
    }
    size_t length = count * request_length;
    for (size_t sent = 0; sent < length;) {
        ssize_t done = write(connection->fd, output + sent, length - sent);
        if (done <= 0) {
            fail("write");
        }
        sent += (size_t)done;
    }
    connection->waiting = count;
    return count != 0;
}

/* The length of a line with its end, or 0. */
static size_t line_length(const char *at, size_t length)
{
    const char *end = memchr(at, '\n', length);
    return end == NULL ? 0 : (size_t)(end - at) + 1;
}

static size_t resp_length(const char *at, size_t length)
{
    size_t line = line_length(at, length);
    if (line == 0) {
        return 0;
    }
    long number = at[0] == '$' || at[0] == '*' || at[0] == '%' ? atol(at + 1) : -1;
    size_t total = line;
    if (at[0] == '$' && number >= 0) {
        total += (size_t)number + 2;
    }
    for (long i = 0; at[0] == '*' && i < number; i++) {
        size_t element = resp_length(at + total, length - total);
        if (element == 0) {
            return 0;
        }
        total += element;
    }
    return total <= length ? total : 0;
}

/* Header lines to the empty one, and as much body as Content-Length says. */
static size_t http_length(const char *at, size_t length)
{
    size_t total = 0, body = 0;
    for (;;) {
        size_t line = line_length(at + total, length - total);
        if (line == 0) {
            return 0;
        }
        if (line > 15 && strncasecmp(at + total, "content-length:", 15) == 0) {
            body = (size_t)atol(at + total + 15);
        }
        total += line;
        if (line == 2) {
            return total + body <= length ? total + body : 0;
        }
    }
}

/* Allowed: a status 2xx, or an array whose first element is 0. */
static bool is_allowed(const char *at, size_t length)
{
    if (at[0] == 'H') {
        return length > 9 && at[9] == '2';
    }
    return at[0] == '*' && length > 6 && at[4] == ':' && at[5] == '0';
}

static void count_replies(struct connection *connection)
{
    size_t used = 0;
    while (used < connection->length) {
        const char *at = connection->input + used;
        size_t left = connection->length - used;
        size_t reply = at[0] == 'H' ? http_length(at, left) : resp_length(at, left);
        if (reply == 0) {
            break;
        }
        if (at[0] == '-') {
            fprintf(stderr, "error reply: %.*s\n", (int)reply, at);
            exit(1);
        }
        bool allowed = is_allowed(at, reply);
        reply_count++;
        allowed_count += allowed;
        if (!allowed) {
            refused_ns = monotonic_ns();
            refused_allowed_count = allowed_count;
        }
        connection->waiting--;
        used += reply;
    }
    connection->length -= used;
    memmove(connection->input, connection->input + used, connection->length);
}

static void receive(struct connection *connection)
{
    ssize_t got = read(connection->fd, connection->input + connection->length,
                       INPUT_BYTES - connection->length - 1);
    if (got <= 0) {
        fail("the server closed a connection");
    }
    connection->length += (size_t)got;
    connection->input[connection->length] = '\0';
    count_replies(connection);
}

/* Until the time is over (or the sweep is), then until every reply has come. */
static double run(int epoll, unsigned connection_count, double seconds)
{
    uint64_t start = monotonic_ns();
    start_ns = start;
    unsigned busy = 0;
    reply_count = allowed_count = refused_allowed_count = 0;
    refused_ns = start;
    for (unsigned i = 0; i < connection_count; i++) {
        busy += send_batch(&connections[i]);
    }
    while (busy > 0) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, 5000);
        if (count <= 0) {
            fail("no reply for five seconds");
        }
        bool over = sweep_end == 0 && (double)(monotonic_ns() - start) > seconds * 1e9;
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            receive(connection);
            if (connection->waiting == 0 && (over || !send_batch(connection))) {
                busy--;
            }
        }
    }
    return (double)(monotonic_ns() - start) * 1e-9;
}

static void read_request(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail(path);
    }
    request_length = fread(request, 1, sizeof request, file);
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench_load ADDRESS REQUEST_FILE CONNECTIONS PIPELINE KEYS\n");
        return 2;
    }
    read_request(argv[2]);
    unsigned connection_count = (unsigned)atoi(argv[3]);
    pipeline = (unsigned)atoi(argv[4]);
    key_count = strtoull(argv[5], NULL, 10);
    if (connection_count == 0 || connection_count > CONNECTION_MAX || pipeline == 0
        || pipeline > PIPELINE_MAX || key_count == 0) {
        return 2;
    }
    int epoll = epoll_create1(0);
    for (unsigned i = 0; i < connection_count; i++) {
        struct connection *connection = &connections[i];
        connection->fd = connect_to(argv[1]);
        connection->input = malloc(INPUT_BYTES);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event);
    }
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        bool sweep = strncmp(line, "sweep", 5) == 0;
        sweep_next = 0;
        sweep_end = sweep ? key_count : 0;
        double seconds = run(epoll, connection_count, sweep ? 0 : atof(line));
        print_figure("replies", (double)reply_count);
        print_figure("allowed", (double)allowed_count);
        print_figure("seconds", seconds);
        print_figure("allowed_at_refusal", (double)refused_allowed_count);
        print_figure("seconds_at_refusal", (double)(refused_ns - start_ns) * 1e-9);
        print_figure("end", 0);
    }
    return 0;
}
