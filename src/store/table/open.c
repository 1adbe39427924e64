/* SPDX-License-Identifier: MIT
 *
 * Tables in memory: of one process, or shared with those it forks. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/table/home.h"
#include "store/table/table.h"
#include "sync/atomic.h"

struct table_shape table_shape_of(uint64_t memory_bytes)
{
    uint64_t stripe_lines =
        memory_bytes < TABLE_SMALL_BYTES ? TABLE_STRIPE_LINES_SMALL : TABLE_STRIPE_LINES;
    uint64_t stripe_bytes = sizeof(struct stripe) + stripe_lines * sizeof(struct table_line);
    uint64_t stripe_count = memory_bytes / stripe_bytes;
    return (struct table_shape){stripe_count, stripe_lines, stripe_count * stripe_bytes};
}

void table_place(struct table *table, void *memory, struct table_shape shape)
{
    /* Lines first: they are the ones that want to lie on huge pages. */
    struct table_line *lines = memory;
    uint64_t line_count = shape.stripe_count * shape.stripe_lines;
    struct stripe *stripes = (struct stripe *)(void *)(lines + line_count);
    table_init(table, lines, stripes, shape.stripe_count, shape.stripe_lines);
}

uint64_t table_waiting_bytes(uint64_t memory_bytes)
{
    uint64_t share = (memory_bytes / WAITING_SHARE + 4095) & ~UINT64_C(4095); // whole pages
    return share < WAITING_BYTES_MAX ? share : WAITING_BYTES_MAX;
}

uint64_t table_events_bytes(uint64_t memory_bytes)
{
    uint64_t bytes = memory_bytes / EVENTS_SHARE / CHUNK_BYTES * CHUNK_BYTES;
    return bytes < WEIR_EVENTS_BYTES_MAX ? bytes : WEIR_EVENTS_BYTES_MAX;
}

void table_place_waiting(struct table *table, void *memory, uint64_t bytes)
{
    table->waiting = (struct waiting_area){.members = &table->members,
                                           .room = memory,
                                           .bytes = bytes,
                                           .epoch = table->epoch + 1,
                                           .since = table->epoch + 1};
}

/* A child has a copy of private memory, in which nobody else's takes are seen: every process would let
 * a whole limit pass. So it must not be used there. A word that the kernel wipes in children costs
 * less to ask than who we are, which is asked where the kernel does not wipe. */
void table_guard_against_fork(struct table *table)
{
    static uint64_t ask = GUARD_ASK; // never changes
    if (mapping_open_wiped(&table->guard_page)) {
        uint64_t *guard = table->guard_page.at;
        *guard = GUARD_OURS;
        table->guard = guard;
    } else {
        table->guard = &ask;
        table->owner = getpid();
    }
}

bool table_is_inherited(const struct table *root)
{
    uint64_t guard = load_acquire(root->guard);
    return guard == GUARD_CHILD
           || (guard == GUARD_ASK && __atomic_load_n(&root->owner, __ATOMIC_ACQUIRE) != getpid());
}

void table_own(struct table *root)
{
    if (load_relaxed(root->guard) == GUARD_ASK) {
        __atomic_store_n(&root->owner, getpid(), __ATOMIC_RELEASE);
    } else {
        store_release(root->guard, GUARD_OURS);
    }
}

/* So many bytes for a table, so many behind it for those who wait, and so many for events. These have a
 * mapping of their own: huge pages are for the table, and what is not used costs nothing. */
static struct table *open_memory(uint64_t table_bytes, uint64_t waiting_bytes,
                                 uint64_t events_bytes,
                                 bool (*open_mapping)(struct mapping *mapping, size_t bytes))
{
    struct table_shape shape = table_shape_of(table_bytes);
    struct mapping mapping = {0};
    struct mapping events_mapping;
    struct table *table = malloc(sizeof *table);
    if (table == NULL) {
        return NULL;
    }
    if (shape.stripe_count == 0 || !open_mapping(&mapping, shape.bytes + waiting_bytes)
        || !open_mapping(&events_mapping, events_bytes)) {
        int why = errno;
        mapping_close(&mapping);
        free(table);
        errno = why;
        return NULL;
    }
    table_place(table, mapping.at, shape);
    event_pool_place(&table->events, events_mapping.at, events_bytes, &table->members);
    table->mapping = mapping;
    table->events_mapping = events_mapping;
    if (waiting_bytes != 0) {
        table_place_waiting(table, (char *)mapping.at + shape.bytes, waiting_bytes);
    }
    return table;
}

struct store *table_open(uint64_t memory_bytes, uint64_t events_bytes)
{
    struct table *table = open_memory(memory_bytes, 0, events_bytes, mapping_open_private);
    if (table != NULL) {
        table_guard_against_fork(table);
    }
    return table != NULL ? &table->store : NULL;
}

/* A file without a name and without content, for the locks that say who is alive. */
static bool join_by_memory_file(struct table *table)
{
    int fd = memfd_create("weir", MFD_CLOEXEC);
    bool done = fd >= 0 && membership_open(&table->members, fd, NULL) && table_join(table);
    if (fd >= 0) {
        int why = errno;
        (void)close(fd);
        errno = why;
    }
    if (done) {
        table_guard_against_fork(table);
    }
    return done;
}

struct store *table_open_shared(uint64_t memory_bytes, uint64_t events_bytes)
{
    uint64_t waiting_bytes = table_waiting_bytes(memory_bytes);
    struct table *table =
        open_memory(memory_bytes - waiting_bytes, waiting_bytes, events_bytes, mapping_open_shared);
    if (table != NULL && !join_by_memory_file(table)) {
        int why = errno;
        table->store.ops->close(&table->store);
        errno = why;
        return NULL;
    }
    return table != NULL ? &table->store : NULL;
}
