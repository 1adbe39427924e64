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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/stores.h"
#include "vector_run.h"

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
    } else if (strcmp(name, "live") == 0 || strcmp(name, "was_blocked") == 0) {
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
        [WEIR_REFUND] = "refund", [WEIR_SHOW] = "show",         [WEIR_RESET] = "reset",
        [WEIR_BLOCK] = "block",   [WEIR_UNBLOCK] = "unblock"};
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (strcmp(word, WORDS[i]) == 0) {
            return (enum weir_operation)i;
        }
    }
    bad_vector(run, "'%s' is no operation", word);
}

/* OPERATION KEY [COST], or of a block how long it lasts; under the limit that is used. */
static struct question question_of(const struct run *run, const struct step *step, size_t at)
{
    if (at + 2 > step->question_count || run->used == NULL) {
        bad_vector(run, "OPERATION KEY [COST], under a limit");
    }
    const char *amount = at + 2 < step->question_count ? step->question[at + 2] : "1";
    struct question question = {.known = run->used,
                                .key = step->question[at + 1],
                                .operation = operation_of(run, step->question[at])};
    if (question.operation == WEIR_BLOCK) {
        question.block_ns = read_time(run, amount);
    } else {
        question.cost_micro = read_cost(run, amount);
    }
    return question;
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
    struct result result = ask(run, &question, now_ns);
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

/* The questions of take_all and can_take_all: the key and the limit of each KEY@LIMIT, and the cost behind them. */
static size_t questions_of(struct run *run, const struct step *step,
                           struct question questions[WEIR_TOGETHER_MAX])
{
    bool is_take = strcmp(step->question[2], "take_all") == 0;
    uint64_t cost_micro = WEIR_UNIT;
    size_t count = 0;
    for (size_t i = 3; i < step->question_count; i++) {
        char *at = strchr(step->question[i], '@');
        if (at == NULL) {
            cost_micro = read_cost(run, step->question[i]);
            continue;
        }
        const struct known_limit *known = find_limit(run, at + 1);
        if (known == NULL || count == WEIR_TOGETHER_MAX) {
            bad_vector(run, "'%s' is no KEY@LIMIT, or one too many", step->question[i]);
        }
        *at = '\0';
        questions[count++] = (struct question){.known = known,
                                               .key = step->question[i],
                                               .operation = is_take ? WEIR_TAKE : WEIR_CAN_TAKE};
    }
    for (size_t i = 0; i < count; i++) {
        questions[i].cost_micro = cost_micro;
    }
    return count;
}

/* What all of them say, without those in shadow mode, and which decided: -1 for none. */
static struct result result_of_all(const struct question *questions, const struct result *each,
                                   size_t count, int *binding)
{
    struct weir_decision heard[WEIR_TOGETHER_MAX];
    int numbers[WEIR_TOGETHER_MAX];
    size_t heard_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!questions[i].known->is_shadow) {
            numbers[heard_count] = (int)i;
            heard[heard_count++] = each[i].decision;
        }
    }
    struct result whole = {.decision = weir_decision_of_all(heard, heard_count, binding)};
    *binding = *binding < 0 ? -1 : numbers[*binding];
    return whole;
}

static void expect_binding(struct run *run, const struct step *step, const char *expected,
                           const struct question *questions, int binding)
{
    char got[NAME_MAX_BYTES] = "none";
    if (binding >= 0) {
        (void)snprintf(got, sizeof got, "%s@%s", questions[binding].key,
                       questions[binding].known->name);
    }
    expect_word(run, step, expected, got);
}

/* at TIME take_all KEY@LIMIT ... [COST] -> OF ALL [; OF THE FIRST ; OF THE SECOND ...] */
static void run_together(struct run *run, const struct step *step)
{
    static const char BINDING[] = "binding=";
    struct question questions[WEIR_TOGETHER_MAX];
    struct result each[WEIR_TOGETHER_MAX];
    int binding;
    size_t count = questions_of(run, step, questions);
    ask_all(run, questions, each, count, read_time(run, step->question[1]));
    const struct result whole = result_of_all(questions, each, count, &binding);
    const struct result *result = &whole;
    size_t next = 0; // of each
    for (size_t i = 0; i < step->answer_count; i++) {
        char *word = step->answer[i];
        if (strcmp(word, ";") == 0) {
            if (next == count) {
                bad_vector(run, "more answers than limits");
            }
            result = &each[next++];
        } else if (strncmp(word, BINDING, sizeof BINDING - 1) == 0) {
            expect_binding(run, step, word + sizeof BINDING - 1, questions, binding);
        } else {
            compare(run, step, word, result);
        }
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
            counts[ask(run, &question, now_ns).decision.verdict]++;
        }
    }
    char expected[LINE_MAX_BYTES] = "";
    static const enum weir_verdict VERDICTS[] = {WEIR_ALLOWED, WEIR_LIMITED, WEIR_NEVER,
                                                 WEIR_BLOCKED};
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

/* at TIME throttle KEY MAX_BURST COUNT PERIOD [QUANTITY] -> five integers; probe and gcra likewise. What the
 * commands mean; their parsing and their errors are the server's. */
static void run_throttle(struct run *run, const struct step *step)
{
    if (step->question_count < 7 || step->answer_count != 5) {
        bad_vector(run, "throttle KEY MAX_BURST COUNT PERIOD [QUANTITY] -> five integers");
    }
    bool is_probe = strcmp(step->question[2], "probe") == 0;
    char period[64];
    (void)snprintf(period, sizeof period, "%ss", step->question[6]);
    long long quantity = step->question_count > 7 ? read_integer(run, step->question[7]) : 1;
    const struct weir_limit_config config = {
        .kind = WEIR_KIND_BUCKET,
        .count_micro = (uint64_t)read_integer(run, step->question[5]) * WEIR_UNIT,
        .period_ns = read_time(run, period),
        .capacity_micro = (uint64_t)(read_integer(run, step->question[4]) + 1) * WEIR_UNIT,
    };
    struct known_limit known = {.name = "throttle", .is_named = true};
    compile(run, &known, &config);
    const struct question question = {.known = &known,
                                      .key = step->question[3],
                                      .operation = quantity < 0 ? WEIR_REFUND
                                                   : is_probe   ? WEIR_CAN_TAKE
                                                                : WEIR_TAKE,
                                      .cost_micro = (uint64_t)llabs(quantity) * WEIR_UNIT};
    struct weir_decision decision = ask(run, &question, read_time(run, step->question[1])).decision;
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
    } else if (strcmp(step.question[2], "throttle") == 0 || strcmp(step.question[2], "probe") == 0
               || strcmp(step.question[2], "gcra") == 0) {
        run_throttle(run, &step);
    } else if (strcmp(step.question[2], "take_all") == 0
               || strcmp(step.question[2], "can_take_all") == 0) {
        run_together(run, &step);
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
    } else if (strncmp(line, "limit ", 6) == 0 || strncmp(line, "named ", 6) == 0
               || strncmp(line, "shadow ", 7) == 0) {
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
    {"later", STORE_TABLE, "memory:"}, // behind a wire
};
enum { STORE_COUNT = sizeof STORES / sizeof STORES[0] };

/* One seed for all runs: under some others a slot is reused in the same stripe, and then an old reading sees a
 * missing bucket as empty since then, which is right and not what a vector expects. */
#define SEED                                                                                       \
    {                                                                                              \
        1, 2                                                                                       \
    }

/* A new file, that is gone when the limiter is closed. */
static enum weir_status open_file(struct run *run, struct weir_error *error)
{
    char folder[] = "/tmp/weir-vectors-XXXXXX";
    char url[sizeof folder + 32];
    if (mkdtemp(folder) == NULL) {
        return WEIR_E_SYSTEM;
    }
    (void)snprintf(url, sizeof url, "file:%s/store", folder);
    struct weir_limiter_config config = {.store = url, .seed = SEED, .caller_clock = true};
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
        fprintf(stderr, "usage: run_vectors core|shared|table|file|forked|later FILE.vec...\n");
        return 2;
    }
    run.store = STORES[store].kind;
    struct weir_error error = {.message = ""};
    struct weir_limiter_config config = {
        .store = STORES[store].url,
        .seed = SEED,
        .caller_clock = true,
        .drivers = strcmp(STORES[store].name, "later") == 0 ? STORE_DRIVERS : NULL};
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
