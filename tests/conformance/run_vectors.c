/* SPDX-License-Identifier: MIT
 *
 * Runs conformance vectors against the core:
 *
 *     run_vectors core|shared|table|file|forked FILE.vec...
 *
 * `core` keeps each bucket in a struct weir_bucket, `shared` takes by compare-and-swap, `table` asks a
 * limiter, `file` one in a new file and `forked` one in memory that processes share. README.md
 * explains the language; test_vectors_on_model.py reads the same files. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir/weir.h"

enum {
    LINE_MAX_BYTES = 512,
    WORDS_MAX = 32,
    LIMITS_MAX = 16,  // per case
    BUCKETS_MAX = 64, // per case
    NAME_MAX_BYTES = 300,
};

enum store_kind { STORE_CORE, STORE_SHARED, STORE_TABLE };

/* A limit of the file: inline, or known by its name. */
struct known_limit {
    char name[64];
    bool is_named;
    struct weir_limit limit;
    struct weir_rule rule;
    char identity[NAME_MAX_BYTES];
};

struct known_bucket {
    char name[NAME_MAX_BYTES]; // identity and key
    struct weir_shared_bucket shared;
};

struct run {
    enum store_kind store;
    struct weir_limiter *limiter;
    const char *path;
    unsigned line;
    unsigned case_count; // of all files: in a table, each case has keys of its own
    unsigned checked;
    unsigned failed;
    struct known_limit limits[LIMITS_MAX];
    struct known_bucket buckets[BUCKETS_MAX];
    size_t limit_count, bucket_count;
    struct known_limit *used;
};

/* What a step asks, and what came back. */
struct step {
    char text[LINE_MAX_BYTES];
    char *question[WORDS_MAX];
    char *answer[WORDS_MAX];
    size_t question_count, answer_count;
};

struct result {
    struct weir_decision decision;
    struct weir_detail detail;
};

__attribute__((format(printf, 2, 3), noreturn)) static void bad_vector(const struct run *run,
                                                                       const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s:%u: ", run->path, run->line);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

static void expect(struct run *run, const struct step *step, bool is_right, const char *expected,
                   const char *got)
{
    run->checked++;
    if (!is_right) {
        run->failed++;
        fprintf(stderr, "%s:%u: %s\n  expected %s, got %s\n", run->path, run->line, step->text,
                expected, got);
    }
}

/* Reading. */

static uint64_t unit_ns(const struct run *run, const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } UNITS[] = {{"", 1},
                 {"ns", 1},
                 {"us", 1000},
                 {"ms", 1000000},
                 {"s", 1000000000},
                 {"min", UINT64_C(60000000000)},
                 {"h", UINT64_C(3600000000000)},
                 {"d", UINT64_C(86400000000000)},
                 {"w", UINT64_C(604800000000000)}};
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        if (strcmp(unit, UNITS[i].name) == 0) {
            return UNITS[i].ns;
        }
    }
    bad_vector(run, "'%s' is no unit of time", unit);
}

/* "1.5s", "100ms", "0": whole nanoseconds. */
static uint64_t read_time(const struct run *run, const char *text)
{
    char *end;
    uint64_t whole = strtoull(text, &end, 10);
    uint64_t rest = 0;
    uint64_t scale = 1;
    if (*end == '.') {
        for (end++; *end >= '0' && *end <= '9'; end++) {
            rest = rest * 10 + (uint64_t)(*end - '0');
            scale *= 10;
        }
    }
    uint64_t unit = unit_ns(run, end);
    if (rest * unit % scale != 0) {
        bad_vector(run, "'%s' is no whole number of nanoseconds", text);
    }
    return whole * unit + rest * unit / scale;
}

static uint64_t read_cost(const struct run *run, const char *text)
{
    uint64_t cost_micro;
    struct weir_error error;
    if (weir_cost_parse(&cost_micro, text, strlen(text), &error) != WEIR_OK) {
        bad_vector(run, "'%s': %s", text, error.message);
    }
    return cost_micro;
}

static long long read_integer(const struct run *run, const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        bad_vector(run, "'%s' is no integer", text);
    }
    return value;
}

static size_t split(char *text, char **words)
{
    size_t count = 0;
    for (char *word = strtok(text, " "); word != NULL && count < WORDS_MAX;
         word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    return count;
}

/* Asking. */

/* Two limits with the same buckets print the same, apart from policy. */
static void identify(struct known_limit *known, const struct weir_limit_config *config)
{
    struct weir_limit_config plain = *config;
    plain.on_full = WEIR_ON_FULL_REFUSE;
    plain.waiting = WEIR_WAITING;
    if (known->is_named) {
        (void)snprintf(known->identity, sizeof known->identity, "named %s", known->name);
    } else if (weir_limit_print(&plain, known->identity, sizeof known->identity) != WEIR_OK) {
        abort();
    }
}

static void compile(struct run *run, struct known_limit *known,
                    const struct weir_limit_config *config)
{
    struct weir_error error;
    if (weir_limit_init(&known->limit, config, &error) != WEIR_OK) {
        bad_vector(run, "%s", error.message);
    }
    identify(known, config);
    if (run->store != STORE_TABLE) {
        return;
    }
    if (known->is_named) {
        weir_rule_init_named(&known->rule, run->limiter, &known->limit, known->name,
                             strlen(known->name));
    } else {
        weir_rule_init(&known->rule, run->limiter, &known->limit);
    }
}

static struct known_limit *find_limit(struct run *run, const char *name)
{
    for (size_t i = 0; i < run->limit_count; i++) {
        if (strcmp(run->limits[i].name, name) == 0) {
            return &run->limits[i];
        }
    }
    return NULL;
}

/* limit NAME TEXT, named NAME TEXT */
static void define_limit(struct run *run, char *line)
{
    char *word = strtok(line, " ");
    char *name = strtok(NULL, " ");
    char *text = strtok(NULL, "");
    if (name == NULL || text == NULL) {
        bad_vector(run, "limit NAME TEXT");
    }
    struct known_limit *known = find_limit(run, name);
    if (known == NULL && run->limit_count == LIMITS_MAX) {
        bad_vector(run, "more than %d limits", LIMITS_MAX);
    }
    known = known != NULL ? known : &run->limits[run->limit_count++];
    *known = (struct known_limit){.is_named = strcmp(word, "named") == 0};
    (void)snprintf(known->name, sizeof known->name, "%s", name);
    struct weir_limit_config config;
    struct weir_error error;
    if (weir_limit_parse(&config, text, strlen(text), &error) != WEIR_OK) {
        bad_vector(run, "'%s': %s", text, error.message);
    }
    compile(run, known, &config);
    run->used = known;
}

static struct weir_shared_bucket *bucket_of(struct run *run, const struct known_limit *limit,
                                            const char *key)
{
    char name[NAME_MAX_BYTES * 2];
    (void)snprintf(name, sizeof name, "%s %s", limit->identity, key);
    for (size_t i = 0; i < run->bucket_count; i++) {
        if (strcmp(run->buckets[i].name, name) == 0) {
            return &run->buckets[i].shared;
        }
    }
    if (run->bucket_count == BUCKETS_MAX || strlen(name) >= NAME_MAX_BYTES) {
        bad_vector(run, "more than %d buckets", BUCKETS_MAX);
    }
    struct known_bucket *made = &run->buckets[run->bucket_count++];
    *made = (struct known_bucket){.name = ""};
    memcpy(made->name, name, strlen(name) + 1);
    return &made->shared;
}

static struct result ask_table(struct run *run, const struct known_limit *known, const char *key,
                               enum weir_operation operation, uint64_t cost_micro, uint64_t now_ns)
{
    char name[NAME_MAX_BYTES];
    struct result result;
    struct weir_request request = {.rule = &known->rule,
                                   .key = name,
                                   .cost_micro = cost_micro,
                                   .operation = operation,
                                   .detail = &result.detail};
    request.key_len = (size_t)snprintf(name, sizeof name, "%u %s", run->case_count, key);
    weir_limiter_decide_at(run->limiter, &request, &result.decision, 1, now_ns);
    return result;
}

static struct result ask_bucket(struct run *run, const struct known_limit *known, const char *key,
                                enum weir_operation operation, uint64_t cost_micro, uint64_t now_ns)
{
    struct weir_shared_bucket *shared = bucket_of(run, known, key);
    struct weir_bucket *bucket = &shared->bucket;
    const struct weir_limit *limit = &known->limit;
    struct result result = {0};
    switch (operation) {
    case WEIR_TAKE:
        result.decision = run->store == STORE_SHARED
                              ? weir_shared_bucket_take(shared, limit, cost_micro, now_ns)
                              : weir_bucket_take(bucket, limit, cost_micro, now_ns);
        break;
    case WEIR_CAN_TAKE:
        result.decision = weir_bucket_can_take(bucket, limit, cost_micro, now_ns);
        break;
    case WEIR_FILL:
        result.decision = weir_bucket_fill(bucket, limit, cost_micro, now_ns, &result.detail.amount,
                                           &result.detail.full);
        break;
    case WEIR_REFUND:
        result.decision = weir_bucket_refund(bucket, limit, cost_micro, now_ns);
        break;
    case WEIR_SHOW:
        result.decision = weir_bucket_show(bucket, limit, now_ns, &result.detail.amount);
        result.detail.existed = result.decision.reset_after_ns > 0;
        break;
    case WEIR_RESET: // what a store does: giving back more than any bucket holds
        result.detail.existed = weir_bucket_show(bucket, limit, now_ns, NULL).reset_after_ns > 0;
        result.decision =
            weir_bucket_refund(bucket, limit, UINT64_MAX - UINT64_MAX % WEIR_UNIT, now_ns);
        break;
    case WEIR_BLOCK: // blocks are a store's
    case WEIR_UNBLOCK: bad_vector(run, "a bucket alone cannot be blocked"); break;
    }
    if (!weir_bucket_valid(bucket)) {
        bad_vector(run, "the bucket's state is not valid");
    }
    return result;
}

static struct result ask(struct run *run, const struct known_limit *known, const char *key,
                         enum weir_operation operation, uint64_t cost_micro, uint64_t now_ns)
{
    return run->store == STORE_TABLE ? ask_table(run, known, key, operation, cost_micro, now_ns)
                                     : ask_bucket(run, known, key, operation, cost_micro, now_ns);
}

/* Comparing. */

static void expect_time(struct run *run, const struct step *step, const char *text, int64_t got_ns)
{
    char got[32];
    int64_t expected_ns = strcmp(text, "none") == 0 ? -1 : (int64_t)read_time(run, text);
    (void)snprintf(got, sizeof got, "%lldns", (long long)got_ns);
    expect(run, step, got_ns == expected_ns, text, got);
}

static void expect_amount(struct run *run, const struct step *step, const char *text,
                          const struct weir_amount *amount)
{
    char got[WEIR_AMOUNT_TEXT_MAX];
    (void)weir_amount_print(amount, got);
    expect(run, step, strcmp(text, got) == 0, text, got);
}

static void expect_word(struct run *run, const struct step *step, const char *expected,
                        const char *got)
{
    expect(run, step, strcmp(expected, got) == 0, expected, got);
}

static void expect_count(struct run *run, const struct step *step, const char *expected,
                         unsigned long long count)
{
    char got[32];
    (void)snprintf(got, sizeof got, "%llu", count);
    expect_word(run, step, expected, got);
}

/* One word of an answer: a verdict, or name=value. */
static void compare(struct run *run, const struct step *step, char *word,
                    const struct result *result)
{
    const struct weir_decision *decision = &result->decision;
    char name[32] = "";
    const char *equals = strchr(word, '=');
    if (equals == NULL) {
        expect_word(run, step, word, weir_verdict_word(decision->verdict));
        return;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
    const char *value = equals + 1;
    if (strcmp(name, "capacity") == 0) {
        expect_count(run, step, value, decision->capacity);
    } else if (strcmp(name, "remaining") == 0) {
        expect_count(run, step, value, decision->remaining);
    } else if (strcmp(name, "retry_after") == 0) {
        expect_time(run, step, value, decision->retry_after_ns);
    } else if (strcmp(name, "reset_after") == 0) {
        expect_time(run, step, value, decision->reset_after_ns);
    } else if (strcmp(name, "delay") == 0) {
        expect_time(run, step, value, decision->delay_ns);
    } else if (strcmp(name, "spill") == 0 || strcmp(name, "level") == 0) {
        expect_amount(run, step, value, &result->detail.amount);
    } else if (strcmp(name, "full") == 0) {
        expect_word(run, step, value, result->detail.full ? "yes" : "no");
    } else if (strcmp(name, "live") == 0) {
        expect_word(run, step, value, result->detail.existed ? "yes" : "no");
    } else {
        bad_vector(run, "'%s' is no expectation", name);
    }
}

/* Steps. */

static enum weir_operation operation_of(const struct run *run, const char *word)
{
    static const char *const WORDS[] = {
        [WEIR_TAKE] = "take",     [WEIR_CAN_TAKE] = "can_take", [WEIR_FILL] = "fill",
        [WEIR_REFUND] = "refund", [WEIR_SHOW] = "show",         [WEIR_RESET] = "reset"};
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (strcmp(word, WORDS[i]) == 0) {
            return (enum weir_operation)i;
        }
    }
    bad_vector(run, "'%s' is no operation", word);
}

/* OPERATION KEY [COST] */
struct question {
    enum weir_operation operation;
    const char *key;
    uint64_t cost_micro;
};

static struct question question_of(const struct run *run, const struct step *step, size_t at)
{
    if (at + 2 > step->question_count || run->used == NULL) {
        bad_vector(run, "OPERATION KEY [COST], under a limit");
    }
    const char *cost = at + 2 < step->question_count ? step->question[at + 2] : "1";
    return (struct question){operation_of(run, step->question[at]), step->question[at + 1],
                             read_cost(run, cost)};
}

/* A bucket alone cannot hold a window's log. */
static bool is_beyond(const struct run *run)
{
    return run->store != STORE_TABLE && run->used->limit.kind == WEIR_KIND_WINDOW;
}

/* at TIME OPERATION KEY [COST] -> ... */
static void run_single(struct run *run, const struct step *step)
{
    uint64_t now_ns = read_time(run, step->question[1]);
    struct question question = question_of(run, step, 2);
    struct result result =
        ask(run, run->used, question.key, question.operation, question.cost_micro, now_ns);
    if (is_beyond(run)) {
        bool is_read = question.operation == WEIR_SHOW || question.operation == WEIR_RESET;
        bool is_refused = result.decision.verdict == WEIR_FAILED // or no whole cost
                          || result.decision.verdict == WEIR_NEVER;
        expect(run, step, is_read || is_refused, "error",
               weir_verdict_word(result.decision.verdict));
        return;
    }
    for (size_t i = 0; i < step->answer_count; i++) {
        compare(run, step, step->answer[i], &result);
    }
}

/* from START every STEP N times [M each] OPERATION KEY [COST] -> VERDICT=COUNT ... */
static void run_repeated(struct run *run, const struct step *step)
{
    bool has_each = step->question_count > 8 && strcmp(step->question[7], "each") == 0;
    uint64_t now_ns = read_time(run, step->question[1]);
    uint64_t every_ns = read_time(run, step->question[3]);
    long long times = read_integer(run, step->question[4]);
    long long each = has_each ? read_integer(run, step->question[6]) : 1;
    struct question question = question_of(run, step, has_each ? 8 : 6);
    unsigned long long counts[WEIR_FAILED + 1] = {0};
    if (is_beyond(run)) {
        return;
    }
    for (long long i = 0; i < times; i++, now_ns += every_ns) {
        for (long long j = 0; j < each; j++) {
            struct result result =
                ask(run, run->used, question.key, question.operation, question.cost_micro, now_ns);
            counts[result.decision.verdict]++;
        }
    }
    char expected[LINE_MAX_BYTES] = "";
    static const enum weir_verdict VERDICTS[] = {WEIR_ALLOWED, WEIR_LIMITED, WEIR_NEVER};
    for (size_t i = 0; i < sizeof VERDICTS / sizeof VERDICTS[0]; i++) {
        char got[64];
        const char *word = weir_verdict_word(VERDICTS[i]);
        (void)snprintf(got, sizeof got, "%s=%llu", word, counts[VERDICTS[i]]);
        (void)snprintf(expected, sizeof expected, "%s=0", word);
        for (size_t j = 0; j < step->answer_count; j++) {
            if (strncmp(step->answer[j], word, strlen(word)) == 0) {
                (void)snprintf(expected, sizeof expected, "%s", step->answer[j]);
            }
        }
        expect_word(run, step, expected, got);
    }
}

static long long ceil_seconds(int64_t ns)
{
    return ns < 0 ? -1 : (ns + 999999999) / 1000000000;
}

/* at TIME throttle KEY MAX_BURST COUNT PERIOD [QUANTITY] -> five integers. What the command means;
 * its parsing and its errors are the server's. */
static void run_throttle(struct run *run, const struct step *step)
{
    if (step->question_count < 7 || step->answer_count != 5) {
        bad_vector(run, "throttle KEY MAX_BURST COUNT PERIOD [QUANTITY] -> five integers");
    }
    long long quantity = step->question_count > 7 ? read_integer(run, step->question[7]) : 1;
    const struct weir_limit_config config = {
        .kind = WEIR_KIND_BUCKET,
        .count_micro = (uint64_t)read_integer(run, step->question[5]) * WEIR_UNIT,
        .period_ns = (uint64_t)read_integer(run, step->question[6]) * 1000000000,
        .capacity_micro = (uint64_t)(read_integer(run, step->question[4]) + 1) * WEIR_UNIT,
    };
    struct known_limit known = {.name = "throttle", .is_named = true};
    compile(run, &known, &config);
    struct weir_decision decision =
        ask(run, &known, step->question[3], quantity < 0 ? WEIR_REFUND : WEIR_TAKE,
            (uint64_t)llabs(quantity) * WEIR_UNIT, read_time(run, step->question[1]))
            .decision;
    const long long got[] = {decision.verdict != WEIR_ALLOWED, (long long)decision.capacity,
                             (long long)decision.remaining, ceil_seconds(decision.retry_after_ns),
                             ceil_seconds(decision.reset_after_ns)};
    for (size_t i = 0; i < 5; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%lld", got[i]);
        expect_word(run, step, step->answer[i], text);
    }
}

static const char *refusal_word(enum weir_status status)
{
    switch (status) {
    case WEIR_OK: return "accepted";
    case WEIR_E_SYNTAX: return "syntax";
    case WEIR_E_RANGE: return "range";
    case WEIR_E_INEXACT: return "inexact";
    case WEIR_E_NO_MEMORY:
    case WEIR_E_SYSTEM:
    case WEIR_E_NO_SPACE:
    case WEIR_E_FILE:
    case WEIR_E_FORKED: break;
    }
    return "?";
}

/* accept TEXT -> TEXT, refuse TEXT -> REASON at OFFSET. Either text may stand in quotes. */
static void run_limit_text(struct run *run, const struct step *step, char *text, const char *answer)
{
    bool is_accept = strncmp(text, "accept", 6) == 0;
    text += 6;
    text += strspn(text, " ");
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--) {
        text[n - 1] = '\0';
    }
    size_t length = strlen(text);
    if (length >= 2 && text[0] == '"') {
        text++;
        length -= 2;
    }
    struct weir_limit_config config;
    struct weir_limit_config other;
    struct weir_error error = {0};
    char got[LINE_MAX_BYTES];
    enum weir_status status = weir_limit_parse(&config, text, length, &error);
    (void)snprintf(got, sizeof got, "%s at %zu", refusal_word(status), error.offset);
    if (!is_accept) {
        expect_word(run, step, answer, got);
        return;
    }
    char expected[WEIR_LIMIT_TEXT_MAX];
    if (weir_limit_parse(&other, answer, strlen(answer), &error) != WEIR_OK
        || weir_limit_print(&other, expected, sizeof expected) != WEIR_OK) {
        bad_vector(run, "'%s' is no limit", answer);
    }
    if (status == WEIR_OK && weir_limit_print(&config, got, sizeof got) != WEIR_OK) {
        bad_vector(run, "'%s' cannot be printed", text);
    }
    expect_word(run, step, expected, got);
}

static void run_step(struct run *run, char *line)
{
    struct step step = {0};
    (void)snprintf(step.text, sizeof step.text, "%s", line);
    char *arrow = strstr(line, " -> ");
    if (arrow == NULL) {
        bad_vector(run, "no ' -> '");
    }
    *arrow = '\0';
    char *answer = arrow + 4 + strspn(arrow + 4, " ");
    if (strncmp(line, "accept ", 7) == 0 || strncmp(line, "refuse ", 7) == 0) {
        run_limit_text(run, &step, line, answer);
        return;
    }
    step.question_count = split(line, step.question);
    step.answer_count = split(answer, step.answer);
    if (step.question_count < 4 || step.answer_count == 0) {
        bad_vector(run, "no step");
    }
    if (strcmp(step.question[0], "from") == 0) {
        run_repeated(run, &step);
    } else if (strcmp(step.question[2], "throttle") == 0) {
        run_throttle(run, &step);
    } else {
        run_single(run, &step);
    }
}

static void run_line(struct run *run, char *line)
{
    if (strncmp(line, "case ", 5) == 0) {
        run->case_count++;
        run->limit_count = 0;
        run->bucket_count = 0;
        run->used = NULL;
    } else if (strncmp(line, "limit ", 6) == 0 || strncmp(line, "named ", 6) == 0) {
        define_limit(run, line);
    } else if (strncmp(line, "use ", 4) == 0) {
        run->used = find_limit(run, line + 4);
    } else {
        run_step(run, line);
    }
}

static void run_file(struct run *run, const char *path)
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    run->path = path;
    run->line = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        run->line++;
        size_t length = strcspn(line, "#\r\n");
        while (length > 0 && line[length - 1] == ' ') {
            length--;
        }
        line[length] = '\0';
        if (length > 0) {
            run_line(run, line);
        }
    }
    (void)fclose(file);
}

/* How a store is called here, and where it is. */
static const struct {
    const char *name;
    enum store_kind kind;
    const char *url;
} STORES[] = {
    {"core", STORE_CORE, "memory:"},
    {"shared", STORE_SHARED, "memory:"},
    {"table", STORE_TABLE, "memory:"},
    {"file", STORE_TABLE, "file:"}, // of a folder made for it
    {"forked", STORE_TABLE, "memory:?shared=yes"},
};
enum { STORE_COUNT = sizeof STORES / sizeof STORES[0] };

/* A new file, that is gone when the limiter is closed. */
static enum weir_status open_file(struct run *run, struct weir_error *error)
{
    char folder[] = "/tmp/weir-vectors-XXXXXX";
    char url[sizeof folder + 32];
    if (mkdtemp(folder) == NULL) {
        return WEIR_E_SYSTEM;
    }
    (void)snprintf(url, sizeof url, "file:%s/store", folder);
    struct weir_limiter_config config = {.store = url, .caller_clock = true};
    enum weir_status status = weir_limiter_open(&run->limiter, &config, error);
    (void)unlink(url + strlen("file:"));
    (void)rmdir(folder);
    return status;
}

int main(int argc, char **argv)
{
    static struct run run;
    size_t store = 0;
    while (argc > 2 && store < STORE_COUNT && strcmp(argv[1], STORES[store].name) != 0) {
        store++;
    }
    if (argc < 3 || store == STORE_COUNT) {
        fprintf(stderr, "usage: run_vectors core|shared|table|file|forked FILE.vec...\n");
        return 2;
    }
    run.store = STORES[store].kind;
    struct weir_error error = {.message = ""};
    struct weir_limiter_config config = {.store = STORES[store].url, .caller_clock = true};
    enum weir_status status = strcmp(config.store, "file:") == 0
                                  ? open_file(&run, &error)
                                  : weir_limiter_open(&run.limiter, &config, &error);
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: %s\n", weir_status_name(status), error.message);
        return 1;
    }
    for (int i = 2; i < argc; i++) {
        run_file(&run, argv[i]);
    }
    weir_limiter_close(run.limiter);
    printf("%u expectations of %u cases, %u failed\n", run.checked, run.case_count, run.failed);
    return run.failed == 0 && run.checked > 0 ? 0 : 1;
}
