/* SPDX-License-Identifier: MIT
 *
 * What stands for the driver in a build without libpq: it knows the URL, and says why it cannot open it. */
#include "core/fail.h"
#include "store/driver.h"
#include "store/postgres/url.h"
#include "weir/postgres.h"

static enum weir_status read_url(const char *text, char path[STORE_PATH_MAX],
                                 struct weir_error *error)
{
    (void)text;
    path[0] = '\0';
    return fail(error, WEIR_E_SYNTAX, 0,
                "this weir was built without PostgreSQL (libpq-dev was not there)");
}

static enum weir_status open_store(struct store **store, const char *text,
                                   struct store_settings *settings, struct weir_error *error)
{
    char path[STORE_PATH_MAX];
    (void)store, (void)settings;
    return read_url(text, path, error);
}

const struct weir_store_driver weir_postgres_driver = {
    .scheme = "postgres",
    .read = read_url,
    .open = open_store,
    .show = postgres_url_show,
};
