/* SPDX-License-Identifier: MIT
 *
 * The stores of libweir: a row for each scheme. */
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "store/driver.h"
#include "store/table/table_driver.h"

static const struct weir_store_driver *const OURS[] = {&MEMORY_DRIVER, &FILE_DRIVER, NULL};

static const struct weir_store_driver *find(const char *url,
                                            const struct weir_store_driver *const *list)
{
    for (; *list != NULL; list++) {
        if (strncmp(url, (*list)->scheme, strlen((*list)->scheme)) == 0) {
            return *list;
        }
    }
    return NULL;
}

/* What is left of libweir's stores beside `more`, and then these; as many as fit. */
static size_t gather(const struct weir_store_driver **drivers, size_t most,
                     const struct weir_store_driver *const *more)
{
    size_t count = 0;
    for (const struct weir_store_driver *const *at = OURS; *at != NULL && count < most; at++) {
        if (more == NULL || find((*at)->scheme, more) == NULL) {
            drivers[count++] = *at;
        }
    }
    for (; more != NULL && *more != NULL && count < most; more++) {
        if ((*more)->form != NULL) {
            drivers[count++] = *more;
        }
    }
    return count;
}

/* "memory:, file:/path or postgres://..". */
static void list_forms(char *text, size_t size, const struct weir_store_driver *const *more)
{
    const struct weir_store_driver *drivers[16];
    size_t count = gather(drivers, sizeof drivers / sizeof drivers[0], more);
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int added = snprintf(text + length, size - length, "%s%s", between, drivers[i]->form);
        length += (size_t)added < size - length ? (size_t)added : size - length - 1;
    }
}

const struct weir_store_driver *store_driver_find(const char *url,
                                                  const struct weir_store_driver *const *more,
                                                  struct weir_error *error)
{
    const struct weir_store_driver *found = more != NULL ? find(url, more) : NULL;
    found = found != NULL ? found : find(url, OURS);
    if (found == NULL) {
        char forms[128];
        list_forms(forms, sizeof forms, more);
        (void)fail(error, WEIR_E_SYNTAX, 0, "a store is %s", forms);
    }
    return found;
}

const struct weir_store_driver *store_driver_read(const char *url,
                                                  const struct weir_store_driver *const *more,
                                                  char path[STORE_PATH_MAX],
                                                  struct weir_error *error)
{
    const struct weir_store_driver *driver = store_driver_find(url, more, error);
    path[0] = '\0';
    return driver != NULL && driver->read(url, path, error) == WEIR_OK ? driver : NULL;
}

void store_url_show(const char *url, const struct weir_store_driver *const *more, char *shown,
                    size_t size)
{
    const struct weir_store_driver *driver = store_driver_find(url, more, NULL);
    if (driver != NULL && driver->show != NULL) {
        driver->show(url, shown, size);
    } else {
        (void)snprintf(shown, size, "%s", url);
    }
}
