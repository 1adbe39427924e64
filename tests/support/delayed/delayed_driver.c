/* SPDX-License-Identifier: MIT
 *
 * weir with stores that answer later: memory: and file: are the tables that they are, each behind the bad wire of
 * delayed_link.h. So every test of weir can be run over it, as it stands:
 *
 *     WEIR_BINARY=build/dev/weir-delayed pytest tests/system/test_server.py
 *
 * WEIR_DELAYED=/path names a file of words of 64 bits, in the order of the rows of `words`, and a test that writes
 * there changes the wire within WATCH_NS. Without it a batch is decided in three parts, and
 * answered in the loop's next pass; and it has PATIENT_NS for that.
 *
 * Lines and upkeep are those of the table, and answer at once. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "delayed_link.h"
#include "server/stores.h"
#include "store/attendant.h"
#include "store/table/table_driver.h"

#define WATCH_NS   UINT64_C(1000000)
#define PATIENT_NS UINT64_C(1000000000)

/* ---- the plan ---- */

enum { WORD_COUNT = 17 };

static const uint64_t *words; // of the file, or NULL

static uint64_t word(size_t i)
{
    return __atomic_load_n(&words[i], __ATOMIC_RELAXED); // a test may write to it meanwhile
}

static struct delayed_plan plan_of_file(void)
{
    return (struct delayed_plan){
        .connect_ns = word(0),
        .way_ns = word(1),
        .there_ns = word(2),
        .back_ns = word(3),
        .parts = (unsigned)word(4),
        .written_max = (unsigned)word(5),
        .not_asked = (unsigned)word(6),
        .refused_sending = (unsigned)word(7),
        .lost_there = (unsigned)word(8),
        .unknown_there = (unsigned)word(9),
        .lost_back = (unsigned)word(10),
        .unknown_back = (unsigned)word(11),
        .breaks = (unsigned)word(12),
        .is_silent = word(13) != 0,
        .refuses = word(14) != 0,
        .fails_at_once = word(15) != 0,
        .held = (unsigned)word(16),
    };
}

static void map_words(void)
{
    const char *path = getenv("WEIR_DELAYED");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *at = mmap(NULL, WORD_COUNT * sizeof *words, PROT_READ, MAP_SHARED, fd, 0);
    words = at != MAP_FAILED ? at : NULL;
    (void)close(fd);
}

static struct delayed_plan plan_now(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, map_words);
    return words != NULL ? plan_of_file() : (struct delayed_plan){.parts = 3};
}

/* ---- one wire for each port ---- */

/* The table as it decides when nobody delays it. */
static const struct store_ops *table_ops;

/*   link   whose it is; never changes
 *   face   decides as the table, whose own ops are the delayed ones
 *   delayed  begins with its own store; a link finds it there */
struct wire {
    struct store face; // first
    const struct link *link;
    struct store *table;
    struct delayed_store delayed;
    struct loop *loop;
    struct loop_timer timer;
    struct wire *next;
};

static struct wire *wires; // of all ports, under the mutex
static pthread_mutex_t wires_mutex = PTHREAD_MUTEX_INITIALIZER;

static void decide_at_once(struct store *face, const struct weir_request *requests,
                           struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    struct store *table = ((struct wire *)(void *)face)->table;
    table_ops->decide(table, requests, decisions, count, now_ns);
}

static const struct store_ops FACE_OPS = {.decide = decide_at_once};

static void watch_plan(void *context)
{
    struct wire *wire = context;
    struct delayed_plan plan = plan_now();
    if (memcmp(&plan, &wire->delayed.plan, sizeof plan) != 0) {
        wire->delayed.plan = plan;
        delayed_look(&wire->delayed);
    }
    loop_set_timer(wire->loop, &wire->timer, loop_now_ns(wire->loop) + WATCH_NS);
}

static void close_wire(struct wire *wire)
{
    (void)pthread_mutex_lock(&wires_mutex);
    struct wire **at = &wires;
    while (*at != wire) {
        at = &(*at)->next;
    }
    *at = wire->next;
    (void)pthread_mutex_unlock(&wires_mutex);
    loop_clear_timer(wire->loop, &wire->timer);
    free(wire);
}

static struct link *link_open(struct store *table, struct port *port, struct loop *loop,
                              struct weir_error *error)
{
    struct wire *wire = calloc(1, sizeof *wire);
    if (wire == NULL) {
        return NULL;
    }
    wire->face.ops = &FACE_OPS;
    wire->table = table;
    wire->loop = loop;
    wire->timer = (struct loop_timer){.due = watch_plan, .owner = wire};
    delayed_init(&wire->delayed, &wire->face, (uint64_t)(uintptr_t)wire);
    wire->delayed.plan = plan_now();
    wire->link = delayed_ops.link_open(&wire->delayed.store, port, loop, error);
    if (wire->link == NULL) {
        free(wire);
        return NULL;
    }
    struct link *link = wire->delayed.first_link; // that one
    (void)pthread_mutex_lock(&wires_mutex);
    wire->next = wires;
    wires = wire;
    (void)pthread_mutex_unlock(&wires_mutex);
    if (words != NULL) {
        watch_plan(wire);
    }
    return link;
}

static struct wire *wire_of(const struct link *link)
{
    (void)pthread_mutex_lock(&wires_mutex);
    struct wire *wire = wires;
    while (wire->link != link) {
        wire = wire->next;
    }
    (void)pthread_mutex_unlock(&wires_mutex);
    return wire;
}

static void link_close(struct link *link)
{
    struct wire *wire = wire_of(link);
    delayed_ops.link_close(link);
    close_wire(wire);
}

/* ---- the drivers ---- */

static struct remote_ops remote;
static struct store_ops ops;

/* All tables have the same ops. */
static void take_over(struct store *store)
{
    if (table_ops == NULL) {
        table_ops = store->ops;
        remote = delayed_ops;
        remote.link_open = link_open;
        remote.link_close = link_close;
        ops = *table_ops;
        ops.decide = attendant_store_decide;
        ops.take = attendant_store_take;
        ops.remote = &remote;
    }
    store->ops = &ops;
    if (getenv("WEIR_DELAYED") == NULL) { // nothing is late but a machine that is busy, or emulated
        store->deadline_ns = PATIENT_NS;
    }
}

static enum weir_status open_by(const struct weir_store_driver *driver, struct store **store,
                                const char *url, struct store_settings *settings,
                                struct weir_error *error)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    enum weir_status status = driver->open(store, url, settings, error);
    if (status == WEIR_OK) {
        (void)pthread_mutex_lock(&mutex);
        take_over(*store);
        (void)pthread_mutex_unlock(&mutex);
    }
    return status;
}

static enum weir_status open_memory(struct store **store, const char *url,
                                    struct store_settings *settings, struct weir_error *error)
{
    return open_by(&MEMORY_DRIVER, store, url, settings, error);
}

static enum weir_status open_file(struct store **store, const char *url,
                                  struct store_settings *settings, struct weir_error *error)
{
    return open_by(&FILE_DRIVER, store, url, settings, error);
}

static enum weir_status read_memory(const char *url, char path[STORE_PATH_MAX],
                                    struct weir_error *error)
{
    return MEMORY_DRIVER.read(url, path, error);
}

static enum weir_status resize(const struct resize_config *config, struct resize_report *report,
                               struct weir_error *error)
{
    return FILE_DRIVER.files->resize(config, report, error);
}

static enum weir_status renew(const char *path, struct weir_error *error)
{
    return FILE_DRIVER.files->renew(path, error);
}

static const struct file_upkeep FILES = {.resize = resize, .renew = renew};

static const struct weir_store_driver DELAYED_MEMORY = {
    .scheme = "memory:",
    .form = "memory:",
    .is_forgotten = true,
    .read = read_memory,
    .open = open_memory,
};

static const struct weir_store_driver DELAYED_FILE = {
    .scheme = "file:",
    .form = "file:/path",
    .read = read_memory, // it reads both
    .open = open_file,
    .files = &FILES,
};

const struct weir_store_driver *const STORE_DRIVERS[] = {&DELAYED_MEMORY, &DELAYED_FILE, NULL};
