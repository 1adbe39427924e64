/* SPDX-License-Identifier: MIT */
#include "server/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/quantity.h"
#include "core/time_units.h"
#include "server/stores.h"

#define SECONDS_NS(seconds) ((seconds)*NS_PER_S)
#define DURATION_NS_MAX     SECONDS_NS(366 * 86400)

enum {
    OPTION_RESP = 0x100, // beyond every letter
    OPTION_HTTP,
    OPTION_UNIX_MODE,
    OPTION_PASSWORD_FILE,
    OPTION_CONFIG,
    OPTION_STORE,
    OPTION_MEMORY,
    OPTION_THREADS,
    OPTION_CONNECTIONS,
    OPTION_CONNECTIONS_PER_ADDRESS,
    OPTION_WAITING,
    OPTION_OUTPUT,
    OPTION_BUFFERS,
    OPTION_HEADER_TIMEOUT,
    OPTION_IDLE_TIMEOUT,
    OPTION_WRITE_TIMEOUT,
    OPTION_DRAIN_TIMEOUT,
    OPTION_HEADERS,
    OPTION_RETRY_AFTER_DATE,
    OPTION_REFUSED_STATUS,
    OPTION_DISCLOSE_KEYS,
    OPTION_TRUSTED_PROXY,
    OPTION_HTTP_HOST,
    OPTION_REDIS_VERSION,
    OPTION_LOG,
    OPTION_LOG_LEVEL,
    OPTION_TEST_CLOCK
};

static const struct option LONG_OPTIONS[] = {
    {"resp", required_argument, NULL, OPTION_RESP},
    {"http", required_argument, NULL, OPTION_HTTP},
    {"unix-mode", required_argument, NULL, OPTION_UNIX_MODE},
    {"password-file", required_argument, NULL, OPTION_PASSWORD_FILE},
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"store", required_argument, NULL, OPTION_STORE},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"max-connections", required_argument, NULL, OPTION_CONNECTIONS},
    {"max-connections-per-address", required_argument, NULL, OPTION_CONNECTIONS_PER_ADDRESS},
    {"max-waiting", required_argument, NULL, OPTION_WAITING},
    {"output-max", required_argument, NULL, OPTION_OUTPUT},
    {"buffers-max", required_argument, NULL, OPTION_BUFFERS},
    {"header-timeout", required_argument, NULL, OPTION_HEADER_TIMEOUT},
    {"idle-timeout", required_argument, NULL, OPTION_IDLE_TIMEOUT},
    {"write-timeout", required_argument, NULL, OPTION_WRITE_TIMEOUT},
    {"drain-timeout", required_argument, NULL, OPTION_DRAIN_TIMEOUT},
    {"headers", required_argument, NULL, OPTION_HEADERS},
    {"retry-after-date", no_argument, NULL, OPTION_RETRY_AFTER_DATE},
    {"refused-status", required_argument, NULL, OPTION_REFUSED_STATUS},
    {"disclose-keys", no_argument, NULL, OPTION_DISCLOSE_KEYS},
    {"trusted-proxy", required_argument, NULL, OPTION_TRUSTED_PROXY},
    {"http-host", required_argument, NULL, OPTION_HTTP_HOST},
    {"redis-version", required_argument, NULL, OPTION_REDIS_VERSION},
    {"log", required_argument, NULL, OPTION_LOG},
    {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
    {"quiet", no_argument, NULL, 'q'},
    {"test-clock", no_argument, NULL, OPTION_TEST_CLOCK},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};

/* The word's place in a list that ends with NULL, or -1. */
static int find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

/* Everything below returns NULL, or what is wrong with the value. */

static const char *add_listener(struct options *options, enum protocol protocol, const char *text)
{
    options->listen_chosen[protocol] = true;
    if (strcmp(text, "off") == 0) {
        return NULL;
    }
    if (options->listen_count == LISTEN_OPTION_COUNT_MAX) {
        return "at most 16 addresses";
    }
    struct listen_option *one = &options->listen[options->listen_count++];
    one->protocol = protocol;
    return address_parse(&one->address, text);
}

static const char *set_bytes(uint64_t *bytes, const char *text, uint64_t min, uint64_t max,
                             const char *range)
{
    uint64_t value;
    if (!quantity_parse_bytes(text, &value)) {
        return "a size is a number and K, M, G or T: 256M";
    }
    if (value < min || value > max) {
        return range;
    }
    *bytes = value;
    return NULL;
}

static const char *set_duration(uint64_t *duration_ns, const char *text)
{
    uint64_t value;
    if (quantity_parse_duration(&value, text, NULL) != WEIR_OK || value > DURATION_NS_MAX) {
        return "a duration is a number and ns, us, ms, s, min, h, d or w, at most 366d: 10s";
    }
    *duration_ns = value;
    return NULL;
}

static const char *set_count(uint64_t *count, const char *text, uint64_t max, const char *range)
{
    return quantity_parse_count(text, 1, max, count) ? NULL : range;
}

static const char *set_headers(struct options *options, const char *text)
{
    static const char *const names[] = {
        [HEADERS_DRAFT] = "draft", [HEADERS_X_RATELIMIT] = "x-ratelimit",
        [HEADERS_USED] = "used",   [HEADERS_RATE_LIMITED] = "rate-limited",
        [HEADERS_NONE] = "none",   NULL};
    int at = find_word(names, text);
    if (at < 0) {
        return "one of draft, x-ratelimit, used, rate-limited, none";
    }
    options->service.headers = (enum header_preset)at;
    return NULL;
}

static const char *set_log_level(struct options *options, const char *text)
{
    static const char *const names[] = {"debug", "info", "warn", "error", NULL};
    int at = find_word(names, text);
    if (at < 0) {
        return "one of debug, info, warn, error";
    }
    options->log_level = (enum log_level)at;
    return NULL;
}

static const char *set_log_format(struct options *options, const char *text)
{
    static const char *const names[] = {"text", "json", NULL};
    int at = find_word(names, text);
    options->log_json = at == 1;
    return at < 0 ? "text or json" : NULL;
}

static const char *set_refused_status(struct options *options, const char *text)
{
    uint64_t status;
    if (!quantity_parse_count(text, 400, 599, &status)) {
        return "an HTTP status from 400 to 599";
    }
    options->service.refused_status = (unsigned)status;
    return NULL;
}

static const char *add_trusted_proxy(struct options *options, const char *text)
{
    struct service_config *service = &options->service;
    if (service->trusted_proxy_count == TRUSTED_PROXY_COUNT_MAX) {
        return "at most 64 networks";
    }
    return address_parse_cidr(&service->trusted_proxies[service->trusted_proxy_count++], text);
}

static const char *add_http_host(struct options *options, const char *text)
{
    struct service_config *service = &options->service;
    size_t length = strlen(text);
    size_t of_name =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");
    if (length == 0 || length >= ADDRESS_HOST_BYTES_MAX || of_name < length) {
        return "a name alone, without http:// and a port: weir.example.org";
    }
    if (service->http_host_count == HTTP_HOST_COUNT_MAX) {
        return "at most 64 names";
    }
    service->http_hosts[service->http_host_count++] = text;
    return NULL;
}

/* It goes into replies as it is, so only what a version is made of. */
static const char *set_redis_version(struct options *options, const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof options->redis_version
        || strspn(text, "0123456789.") != length) {
        return "digits and points, at most 31: 7.2.4";
    }
    memcpy(options->redis_version, text, length + 1);
    return NULL;
}

static const char *set_password_file(struct options *options, const char *text)
{
    options->password_file = text;
    return text[0] == '\0' ? "the name of a file" : NULL;
}

static const char *set_config(struct options *options, const char *text)
{
    options->config = text;
    if (strlen(text) >= CONFIG_PATH_BYTES_MAX) {
        return "a path of less than 4096 bytes";
    }
    return text[0] == '\0' ? "the name of a file" : NULL;
}

static const char *set_store(struct options *options, const char *text)
{
    char path[STORE_PATH_MAX];
    options->store = text;
    return store_driver_read(text, STORE_DRIVERS, path, &options->store_error) != NULL
               ? NULL
               : options->store_error.message;
}

static const char *set_idle_timeout(struct options *options, const char *text)
{
    const char *why = set_duration(&options->idle_timeout_ns[PROTOCOL_RESP], text);
    options->idle_timeout_ns[PROTOCOL_HTTP] = options->idle_timeout_ns[PROTOCOL_RESP];
    return why;
}

/* What a limit on time may be. */
static const char *apply_timeout(struct options *options, int option, const char *text)
{
    switch (option) {
    case OPTION_HEADER_TIMEOUT: return set_duration(&options->header_timeout_ns, text);
    case OPTION_IDLE_TIMEOUT: return set_idle_timeout(options, text);
    case OPTION_WRITE_TIMEOUT: return set_duration(&options->write_timeout_ns, text);
    default: return set_duration(&options->drain_timeout_ns, text);
    }
}

/* What a limit on sizes and counts may be. */
static const char *apply_bound(struct options *options, int option, const char *text)
{
    static const uint64_t connections_max = 1 << 24;
    static const char connections_range[] = "a whole number from 1 to 16777216";
    static const uint64_t bytes_max = UINT64_C(1) << 40;
    static const char bytes_range[] = "a size from 64K to 1T";
    _Static_assert(WEIR_MEMORY_BYTES_MIN == UINT64_C(64) << 10
                       && WEIR_MEMORY_BYTES_MAX == UINT64_C(16) << 40 && THREAD_COUNT_MAX == 256,
                   "the ranges as the sentences below say them");
    switch (option) {
    case OPTION_MEMORY:
        return set_bytes(&options->memory_bytes, text, WEIR_MEMORY_BYTES_MIN, WEIR_MEMORY_BYTES_MAX,
                         "a size from 64K to 16T");
    case OPTION_THREADS:
        return set_count(&options->thread_count, text, THREAD_COUNT_MAX,
                         "a whole number from 1 to 256");
    case OPTION_CONNECTIONS:
        return set_count(&options->connections_max, text, connections_max, connections_range);
    case OPTION_CONNECTIONS_PER_ADDRESS:
        return set_count(&options->connections_per_address_max, text, connections_max,
                         connections_range);
    case OPTION_WAITING:
        return set_count(&options->waiting_max, text, WAITING_COUNT_MAX,
                         "a whole number from 1 to 10000000");
    case OPTION_OUTPUT:
        return set_bytes(&options->output_bytes_max, text, 1 << 16, bytes_max, bytes_range);
    default: return set_bytes(&options->buffers_bytes_max, text, 1 << 16, bytes_max, bytes_range);
    }
}

static const char *apply(struct options *options, int option, const char *text)
{
    switch (option) {
    case OPTION_RESP: return add_listener(options, PROTOCOL_RESP, text);
    case OPTION_HTTP: return add_listener(options, PROTOCOL_HTTP, text);
    case OPTION_UNIX_MODE:
        return quantity_parse_mode(text, &options->unix_mode) ? NULL : "octal, at most 0777: 0660";
    case OPTION_PASSWORD_FILE: return set_password_file(options, text);
    case OPTION_CONFIG: return set_config(options, text);
    case OPTION_STORE: return set_store(options, text);
    case OPTION_HEADERS: return set_headers(options, text);
    case OPTION_REFUSED_STATUS: return set_refused_status(options, text);
    case OPTION_TRUSTED_PROXY: return add_trusted_proxy(options, text);
    case OPTION_HTTP_HOST: return add_http_host(options, text);
    case OPTION_REDIS_VERSION: return set_redis_version(options, text);
    case OPTION_LOG: return set_log_format(options, text);
    case OPTION_LOG_LEVEL: return set_log_level(options, text);
    case OPTION_RETRY_AFTER_DATE: options->service.retry_after_date = true; return NULL;
    case OPTION_DISCLOSE_KEYS: options->service.disclose_keys = true; return NULL;
    case OPTION_TEST_CLOCK: options->test_clock = true; return NULL;
    case 'q': options->quiet = true; return NULL;
    case OPTION_HEADER_TIMEOUT:
    case OPTION_IDLE_TIMEOUT:
    case OPTION_WRITE_TIMEOUT:
    case OPTION_DRAIN_TIMEOUT: return apply_timeout(options, option, text);
    default: return apply_bound(options, option, text);
    }
}

static const char *option_name(int option)
{
    for (const struct option *at = LONG_OPTIONS; at->name != NULL; at++) {
        if (at->val == option) {
            return at->name;
        }
    }
    return "?";
}

__attribute__((format(printf, 2, 3))) static enum options_result
bad(char message[OPTIONS_MESSAGE_BYTES_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, OPTIONS_MESSAGE_BYTES_MAX, format, args);
    va_end(args);
    return OPTIONS_BAD;
}

/* The password of a store is not shown. */
static void show_value(int option, const char *value, char shown[STORE_SHOWN_MAX])
{
    if (option == OPTION_STORE) {
        store_url_show(value, STORE_DRIVERS, shown, STORE_SHOWN_MAX);
    } else {
        (void)snprintf(shown, STORE_SHOWN_MAX, "%s", value);
    }
}

static enum options_result parse_arguments(struct options *options, int argc, char **argv,
                                           char message[OPTIONS_MESSAGE_BYTES_MAX])
{
    optind = 0; // glibc: start over, whatever was parsed before
    opterr = 0;
    for (;;) {
        int before = optind > 0 ? optind : 1;
        int option = getopt_long(argc, argv, "+:qh", LONG_OPTIONS, NULL);
        if (option == -1) {
            break;
        }
        if (option == 'h') {
            return OPTIONS_HELP;
        }
        if (option == '?') {
            return bad(message, "unknown option '%s'", argv[before]);
        }
        if (option == ':') {
            return bad(message, "option '%s' needs a value", argv[before]);
        }
        const char *why = apply(options, option, optarg);
        if (why != NULL) {
            char shown[STORE_SHOWN_MAX];
            show_value(option, optarg, shown);
            return bad(message, "--%s '%s': %s", option_name(option), shown, why);
        }
    }
    if (optind < argc) {
        return bad(message, "unexpected argument '%s'", argv[optind]);
    }
    return OPTIONS_RUN;
}

/* What nobody chose on the command line comes from the environment, or is the default. */
static enum options_result choose_listeners(struct options *options,
                                            char message[OPTIONS_MESSAGE_BYTES_MAX])
{
    static const struct {
        const char *variable, *address;
    } fallbacks[PROTOCOL_COUNT] = {[PROTOCOL_RESP] = {"WEIR_RESP", "127.0.0.1:6390"},
                                   [PROTOCOL_HTTP] = {"WEIR_HTTP", "127.0.0.1:8390"}};
    for (int protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        if (options->listen_chosen[protocol]) {
            continue;
        }
        const char *chosen = getenv(fallbacks[protocol].variable);
        bool is_chosen = chosen != NULL && chosen[0] != '\0';
        const char *text = is_chosen ? chosen : fallbacks[protocol].address;
        const char *why = add_listener(options, (enum protocol)protocol, text);
        if (why != NULL) {
            return bad(message, "%s '%s': %s", fallbacks[protocol].variable, text, why);
        }
        options->listen_chosen[protocol] = is_chosen;
    }
    return OPTIONS_RUN;
}

enum options_result options_parse(struct options *options, int argc, char **argv,
                                  char message[OPTIONS_MESSAGE_BYTES_MAX])
{
    *options = (struct options){
        .unix_mode = 0600,
        .output_bytes_max = 16 << 20,
        .buffers_bytes_max = 256 << 20,
        .waiting_max = WEIR_WAITING_ALL,
        .header_timeout_ns = SECONDS_NS(10),
        .idle_timeout_ns = {[PROTOCOL_RESP] = 0, [PROTOCOL_HTTP] = SECONDS_NS(75)},
        .write_timeout_ns = SECONDS_NS(30),
        .drain_timeout_ns = SECONDS_NS(5),
        .log_level = LOG_INFO,
        .service = {.headers = HEADERS_DRAFT, .refused_status = 429},
        .redis_version = "7.2.4",
    };
    enum options_result result = parse_arguments(options, argc, argv, message);
    if (result != OPTIONS_RUN) {
        return result;
    }
    if (options->quiet && options->log_level < LOG_WARN) {
        options->log_level = LOG_WARN;
    }
    const char *store = getenv("WEIR_STORE");
    if (options->store == NULL && store != NULL && store[0] != '\0') {
        const char *why = set_store(options, store);
        if (why != NULL) {
            char shown[STORE_SHOWN_MAX];
            show_value(OPTION_STORE, store, shown);
            return bad(message, "WEIR_STORE '%s': %s", shown, why);
        }
    }
    const char *file = getenv("WEIR_PASSWORD_FILE");
    if (options->password_file == NULL && file != NULL && file[0] != '\0') {
        options->password_file = file;
    }
    options->service.redis_version = options->redis_version;
    return choose_listeners(options, message);
}
