/* SPDX-License-Identifier: MIT */
#include "store/table/table_driver.h"

#include <errno.h>
#include <string.h>

#include "core/fail.h"
#include "platform/membership.h"
#include "store/table/renew.h"
#include "store/table/resize.h"
#include "store/table/table.h"
#include "store/table/table_url.h"

static enum weir_status read_url(const char *text, char path[STORE_PATH_MAX],
                                 struct weir_error *error)
{
    struct store_url url;
    enum weir_status status = store_url_parse(&url, text, error);
    if (status == WEIR_OK) {
        memcpy(path, url.path, STORE_PATH_MAX);
    }
    return status;
}

/* The numbers of the settings count before the URL's. */
static enum weir_status begin(struct store_url *url, const char *text,
                              const struct store_settings *settings, struct weir_error *error)
{
    enum weir_status status = store_url_parse(url, text, error);
    url->bytes = settings->memory_bytes != 0 ? settings->memory_bytes : url->bytes;
    url->events_bytes = settings->events_bytes != 0 ? settings->events_bytes : url->events_bytes;
    url->events_bytes -= url->events_bytes % CHUNK_BYTES;
    return status;
}

static enum weir_status finish(enum weir_status status, struct store *store,
                               const struct store_settings *settings)
{
    if (status == WEIR_OK && !settings->is_caller_clock) {
        table_follow_wall(store);
    }
    return status;
}

static enum weir_status open_memory(struct store **store, const char *text,
                                    struct store_settings *settings, struct weir_error *error)
{
    struct store_url url;
    enum weir_status status = begin(&url, text, settings, error);
    if (status != WEIR_OK) {
        return status;
    }
    uint64_t bytes = url.bytes != 0 ? url.bytes : WEIR_MEMORY_BYTES;
    uint64_t events_bytes = url.events_bytes != 0 ? url.events_bytes : table_events_bytes(bytes);
    *store =
        url.is_shared ? table_open_shared(bytes, events_bytes) : table_open(bytes, events_bytes);
    if (*store == NULL && errno == ENOTSUP) {
        return fail(error, WEIR_E_SYSTEM, 0, "cannot share memory with other processes: %s",
                    membership_explain(errno));
    }
    if (*store == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "cannot map %llu bytes: %s",
                    (unsigned long long)(bytes + events_bytes), strerror(errno));
    }
    return finish(WEIR_OK, *store, settings);
}

static enum weir_status open_file(struct store **store, const char *text,
                                  struct store_settings *settings, struct weir_error *error)
{
    struct store_url url;
    enum weir_status status = begin(&url, text, settings, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct file_config file = {
        .path = url.path,
        .bytes = url.bytes,
        .new_bytes = WEIR_FILE_BYTES,
        .events_bytes = url.events_bytes,
        .mode = url.mode,
        .is_caller_clock = settings->is_caller_clock,
        .flush_every_ns = url.flush_every_ns,
        .seed = {settings->seed[0], settings->seed[1]},
    };
    status = table_open_file(store, &file, settings->seed, error);
    return finish(status, *store, settings);
}

static const struct file_upkeep FILES = {.resize = resize_file, .renew = table_renew_file};

const struct weir_store_driver MEMORY_DRIVER = {
    .scheme = "memory:",
    .form = "memory:",
    .is_forgotten = true,
    .read = read_url,
    .open = open_memory,
};

const struct weir_store_driver FILE_DRIVER = {
    .scheme = "file:",
    .form = "file:/path",
    .read = read_url,
    .open = open_file,
    .files = &FILES,
};
