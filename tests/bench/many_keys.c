/* SPDX-License-Identifier: MIT
 *
 * Ten million keys, in process (rows 4 to 9, and 37): weir's table at its design load, the memory's own
 * limits over as many bytes of the same pages, and a hash map with a mutex, as everybody writes it.
 *
 *     many_keys weir [KEYS]     weir, the dependent load, the prefetched compare-and-swap
 *     many_keys huge [KEYS]     weir alone, on pages of 2 MiB; small: of 4 KiB
 *     many_keys file [KEYS] FOLDER   in a file there, which is removed; disk: the same, called so
 *     many_keys uthash [KEYS]   the hash map */
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <uthash.h>

#include "bench.h"
#include "weir/weir.h"

enum { BATCH = 32, ROUND_COUNT = 1 << 20, KEY_BYTES = 16, LINE_BYTES = 64 };

static const double DESIGN_LOAD = 0.8;
static uint64_t key_count = 10 * 1000 * 1000;

struct key {
    uint64_t words[KEY_BYTES / sizeof(uint64_t)];
};

static struct key key_of(uint64_t index)
{
    return (struct key){{index * UINT64_C(0x9e3779b97f4a7c15), index}};
}

static double ns_per(uint64_t start_ns, uint64_t end_ns, uint64_t count)
{
    return (double)(end_ns - start_ns) / (double)count;
}

static struct weir_limiter *limiter;
static struct weir_rule rule;

/* One after the other: each address comes from the load before. */
static double run_dependent_load(const uint64_t *table, uint64_t line_count)
{
    uint64_t random = 77, value = 0;
    uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < ROUND_COUNT; i++) {
        uint64_t line = random_below(&random, line_count);
        value = table[(line ^ (value & 1)) * (LINE_BYTES / sizeof *table)];
        random ^= value & 1;
    }
    keep(value);
    return ns_per(start, cpu_ns(), ROUND_COUNT);
}

/* What memory allows: 32 lines on their way at once, one compare-and-swap in each. */
static double run_prefetched_cas(char *table, uint64_t line_count)
{
    uint64_t random = 78;
    uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < ROUND_COUNT; i += BATCH) {
        word16 *lines[BATCH];
        for (int j = 0; j < BATCH; j++) {
            lines[j] = (word16 *)(void *)(table + random_below(&random, line_count) * LINE_BYTES);
            __builtin_prefetch(lines[j], 1);
        }
        for (int j = 0; j < BATCH; j++) {
            word16 old = *(volatile word16 *)lines[j];
            __sync_bool_compare_and_swap(lines[j], old, old + 2);
        }
    }
    return ns_per(start, cpu_ns(), ROUND_COUNT);
}

/* The single call, its clock inside. */
static double run_single(void)
{
    uint64_t random = 79;
    uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < ROUND_COUNT; i++) {
        struct key key = key_of(random_below(&random, key_count));
        struct weir_decision decision =
            weir_limiter_take(limiter, &rule, &key, sizeof key, WEIR_UNIT);
        keep(decision.remaining);
    }
    return ns_per(start, cpu_ns(), ROUND_COUNT);
}

/* What a caller writes who knows neither the batch nor weir's clock. */
static double run_naive_loop(void)
{
    uint64_t random = 80;
    uint64_t start = cpu_ns();
    for (uint64_t i = 0; i < ROUND_COUNT; i++) {
        struct key key = key_of(random_below(&random, key_count));
        struct timespec now;
        clock_gettime(CLOCK_BOOTTIME, &now);
        uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
        struct weir_decision decision =
            weir_limiter_take_at(limiter, &rule, &key, sizeof key, WEIR_UNIT, now_ns);
        keep(decision.remaining);
    }
    return ns_per(start, cpu_ns(), ROUND_COUNT);
}

/* Decisions of `together` limits each, all of different buckets. */
static void run_batches(uint64_t seed, uint64_t count, int together)
{
    uint64_t random = seed;
    struct key keys[BATCH];
    struct weir_request requests[BATCH];
    struct weir_decision decisions[BATCH];
    for (int j = 0; j < BATCH; j++) {
        requests[j] = (struct weir_request){.rule = &rule,
                                            .key = &keys[j],
                                            .key_len = sizeof keys[j],
                                            .cost_micro = WEIR_UNIT,
                                            .operation = WEIR_TAKE,
                                            .and_next = (j + 1) % together != 0};
    }
    for (uint64_t i = 0; i < count; i += BATCH / (unsigned)together) {
        for (int j = 0; j < BATCH; j++) {
            keys[j] = key_of(random_below(&random, key_count));
        }
        weir_limiter_decide(limiter, requests, decisions, BATCH);
        keep(decisions[0].remaining);
    }
}

static double run_one_thread(void)
{
    uint64_t start = monotonic_ns();
    run_batches(85, ROUND_COUNT * 4, 1);
    return ns_per(start, monotonic_ns(), ROUND_COUNT * 4);
}

static double run_batch(void)
{
    uint64_t start = cpu_ns();
    run_batches(81, ROUND_COUNT * 4, 1);
    return ns_per(start, cpu_ns(), ROUND_COUNT * 4);
}

/* Takes under so many limits each, in batches of as many requests. */
static double run_together(int limits)
{
    uint64_t start = cpu_ns();
    run_batches(86, ROUND_COUNT * 2, limits);
    return ns_per(start, cpu_ns(), ROUND_COUNT * 2);
}

static void *run_batch_thread(void *argument)
{
    run_batches(*(uint64_t *)argument, ROUND_COUNT * 4, 1);
    return NULL;
}

/* Nanoseconds per decision of the process. */
static double run_two_threads(void)
{
    uint64_t seeds[2] = {82, 83};
    pthread_t threads[2];
    uint64_t start = monotonic_ns();
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, run_batch_thread, &seeds[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    return ns_per(start, monotonic_ns(), ROUND_COUNT * 8);
}

static void fill_limiter(void)
{
    for (uint64_t index = 0; index < key_count; index++) {
        struct key key = key_of(index);
        keep(weir_limiter_take(limiter, &rule, &key, sizeof key, WEIR_UNIT).remaining);
    }
}

static void open_limiter(uint64_t slots, const char *store)
{
    struct weir_limiter_config config = {.memory_bytes = slots * 32, .store = store};
    /* One unit drains in five minutes: what was filled stays live for the whole run. */
    if (weir_limiter_open(&limiter, &config, NULL) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, "1000000/3650d", NULL) != WEIR_OK) {
        exit(1);
    }
}

static int measure_weir(void)
{
    open_limiter((uint64_t)((double)key_count / DESIGN_LOAD), "memory:");
    struct weir_limiter_stats stats;
    uint64_t start = cpu_ns();
    fill_limiter();
    double insert_ns = ns_per(start, cpu_ns(), key_count);
    weir_limiter_stats(limiter, &stats);
    uint64_t line_count = stats.memory_bytes / LINE_BYTES;
    char *table = map_huge(line_count * LINE_BYTES);
    memset(table, 0, line_count * LINE_BYTES);
    while (next_round()) {
        print_figure("load", run_dependent_load((const uint64_t *)(const void *)table, line_count));
        print_figure("single", run_single());
        print_figure("naive", run_naive_loop());
        print_figure("cas", run_prefetched_cas(table, line_count));
        print_figure("batch", run_batch());
        print_figure("under_two", run_together(2));
        print_figure("under_four", run_together(4));
        print_figure("one_thread", run_one_thread());
        print_figure("two_threads", run_two_threads());
        weir_limiter_stats(limiter, &stats);
        print_figure("bytes_per_key", (double)stats.memory_bytes / (double)stats.used_count);
        print_figure("table_load", (double)stats.used_count / (double)stats.slot_count);
        print_figure("full_count", (double)stats.full_count);
        print_figure("insert", insert_ns);
        print_figure("end", 0);
    }
    weir_limiter_close(limiter);
    return 0;
}

static const char *folder = "/dev/shm";

/* Where a file of this process is. */
static const char *file_path(void)
{
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/weir-bench-%d", folder, (int)getpid());
    return path;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* How long it takes to open files of these sizes that are there, in microseconds: the median, and in turns. For
 * at some times a kernel takes three times as long as at others. */
static void measure_openings(const char *const sizes[2], double us[2])
{
    enum { TURNS = 201 };
    static uint64_t took_ns[2][TURNS];
    char url[320];
    struct weir_limiter_config config = {.store = url};
    for (int i = -2; i < 2 * TURNS; i++) { // at first they are made
        int j = i & 1;
        (void)snprintf(url, sizeof url, "file:%s.%s?size=%s", file_path(), sizes[j], sizes[j]);
        uint64_t start = monotonic_ns();
        if (weir_limiter_open(&limiter, &config, NULL) != WEIR_OK) {
            exit(1);
        }
        if (i >= 0) {
            took_ns[j][i / 2] = monotonic_ns() - start;
        }
        weir_limiter_close(limiter);
    }
    for (int j = 0; j < 2; j++) {
        (void)snprintf(url, sizeof url, "%s.%s", file_path(), sizes[j]);
        (void)unlink(url);
        qsort(took_ns[j], TURNS, sizeof took_ns[j][0], compare);
        us[j] = (double)took_ns[j][TURNS / 2] / 1000;
    }
}

/* The same decisions over memory of one kind. */
static int measure_store(const char *kind)
{
    char url[320] = "memory:";
    char name[32];
    bool is_file = strcmp(kind, "file") == 0 || strcmp(kind, "disk") == 0;
    if (is_file) {
        (void)snprintf(url, sizeof url, "file:%s", file_path());
    } else if (strcmp(kind, "small") == 0) {
        (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
    double opening_us[2] = {0, 0};
    if (is_file) {
        measure_openings((const char *const[]){"1G", "1M"}, opening_us);
    }
    open_limiter((uint64_t)((double)key_count / DESIGN_LOAD), url);
    (void)unlink(file_path());
    fill_limiter();
    while (next_round()) {
        const struct {
            const char *name;
            double figure;
        } figures[] = {{"single", run_single()},
                       {"batch", run_batch()},
                       {"open_large", opening_us[0]},
                       {"open_little", opening_us[1]}};
        for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
            (void)snprintf(name, sizeof name, "%s_%s", kind, figures[i].name);
            print_figure(name, figures[i].figure);
        }
        print_figure("end", 0);
    }
    weir_limiter_close(limiter);
    return 0;
}

struct entry {
    struct key key;
    double level, last_s;
    UT_hash_handle hh;
};

static struct entry *entries;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool map_take(struct key key)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double now_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    pthread_mutex_lock(&mutex);
    struct entry *entry;
    HASH_FIND(hh, entries, &key, sizeof key, entry);
    if (entry == NULL) {
        entry = calloc(1, sizeof *entry);
        if (entry == NULL) {
            exit(1);
        }
        entry->key = key;
        HASH_ADD(hh, entries, key, sizeof key, entry);
    }
    double level = entry->level - (now_s - entry->last_s) * (1.0 / 315.36);
    level = level < 0 ? 0 : level;
    bool allowed = level + 1 <= 1e6;
    entry->level = allowed ? level + 1 : level;
    entry->last_s = now_s;
    pthread_mutex_unlock(&mutex);
    return allowed;
}

static void *return_at_once(void *argument)
{
    return argument;
}

static int measure_uthash(void)
{
    /* glibc's mutexes are free of atomics until a second thread has existed. */
    pthread_t thread;
    pthread_create(&thread, NULL, return_at_once, NULL);
    pthread_join(thread, NULL);
    for (uint64_t index = 0; index < key_count; index++) {
        keep(map_take(key_of(index)));
    }
    struct mallinfo2 memory = mallinfo2();
    double bytes = (double)(memory.uordblks + memory.hblkhd) / (double)key_count;
    while (next_round()) {
        uint64_t random = 84;
        uint64_t start = cpu_ns();
        for (uint64_t i = 0; i < ROUND_COUNT; i++) {
            keep(map_take(key_of(random_below(&random, key_count))));
        }
        print_figure("map", ns_per(start, cpu_ns(), ROUND_COUNT));
        print_figure("map_bytes_per_key", bytes);
        print_figure("end", 0);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        key_count = strtoull(argv[2], NULL, 10);
    }
    folder = argc > 3 ? argv[3] : folder;
    if (argc < 2 || strcmp(argv[1], "weir") == 0) {
        return measure_weir();
    }
    return strcmp(argv[1], "uthash") == 0 ? measure_uthash() : measure_store(argv[1]);
}
