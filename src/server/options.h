/* SPDX-License-Identifier: MIT
 *
 * What the person who starts the server chose: the command line, and four variables of the
 * environment, read once into one plain struct. */
#ifndef WEIR_SERVER_OPTIONS_H
#define WEIR_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/engine.h"
#include "server/address.h"
#include "server/log.h"
#include "weir/status.h"

enum {
    LISTEN_OPTION_COUNT_MAX = 16, // addresses on the command line
    THREAD_COUNT_MAX = 256,
    WAITING_COUNT_MAX = 10000000,
    REDIS_VERSION_BYTES_MAX = 32,
    OPTIONS_MESSAGE_BYTES_MAX = 512
};

struct listen_option {
    enum protocol protocol;
    struct address address;
};

struct options {
    struct listen_option listen[LISTEN_OPTION_COUNT_MAX];
    size_t listen_count;
    bool listen_chosen[PROTOCOL_COUNT]; // by option or variable, so not the default
    unsigned unix_mode;
    const char *password_file; // NULL: no password. Points into argv or the environment
    bool test_clock;

    uint64_t thread_count; // 0: as many as processors
    const char *config;    // a file, of argv; NULL: the one that is found
    const char *store;     // a URL, of argv or the environment; NULL: memory:
    uint64_t memory_bytes; // 0: what the store has unless said
    struct weir_error store_error;

    uint64_t connections_max;             // 0: what the limit on open files allows
    uint64_t connections_per_address_max; // 0: no limit of its own
    uint64_t waiting_max;                 // how many may stand in line, in all
    uint64_t output_bytes_max;            // per connection
    uint64_t buffers_bytes_max;           // what all connections together have waiting
    uint64_t header_timeout_ns;           // 0, for these four: never
    uint64_t idle_timeout_ns[PROTOCOL_COUNT];
    uint64_t write_timeout_ns;
    uint64_t drain_timeout_ns; // 0: at once

    enum log_level log_level;
    bool log_json;
    bool quiet;

    struct service_config service; // password, its length: not filled here
    char redis_version[REDIS_VERSION_BYTES_MAX];
};

enum options_result {
    OPTIONS_RUN,  // *options is complete
    OPTIONS_HELP, // the person asked for help
    OPTIONS_BAD   // `message` says what is wrong and where
};

/* Reads the command line; argv[0] is not looked at. Startup only. */
enum options_result options_parse(struct options *options, int argc, char **argv,
                                  char message[OPTIONS_MESSAGE_BYTES_MAX]);

/* The text of `weir serve --help`, in parts; NULL ends them. */
extern const char *const OPTIONS_HELP_TEXT[];

#endif
