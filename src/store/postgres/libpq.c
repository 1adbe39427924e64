/* SPDX-License-Identifier: MIT */
#include "store/postgres/libpq.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"

/* Written once; stays loaded, because threads of it may still be at work when a store has been closed. */
static struct libpq loaded;
static char why_not[256];

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL && why_not[0] == '\0') {
        (void)snprintf(why_not, sizeof why_not, "it is too old, it has no %s()", name);
    }
    return found;
}

static void load(void)
{
    void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)snprintf(why_not, sizeof why_not, "%s", dlerror());
        return;
    }
    void *found;
#define LIBPQ_FIND(name)                                                                           \
    found = find(library, "PQ" #name);                                                             \
    memcpy(&loaded.name, &found, sizeof found); // POSIX: a function's address fits
    LIBPQ_MAP(LIBPQ_FIND)
#undef LIBPQ_FIND
}

const struct libpq *libpq_load(struct weir_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load);
    if (why_not[0] != '\0') {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "PostgreSQL's client library cannot be loaded (Debian: apt install libpq5): %s",
                   why_not);
        return NULL;
    }
    return &loaded;
}
