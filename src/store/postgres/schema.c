/* SPDX-License-Identifier: MIT */
#include "store/postgres/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "store/postgres/sql.h"
#include "store/postgres/talk.h"
#include "weir/version.h"

/* A table may have to be written anew, which takes as long as it is large. */
#define SCHEMA_PATIENCE_NS (3600 * NS_PER_S)

enum { ROLE_NAME_MAX = 63 }; // NAMEDATALEN - 1: PostgreSQL cuts what is longer

/* ---- what is there ---- */

static bool is_state(const struct libpq *pq, const PGresult *result, const char *state)
{
    const char *found = pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    return found != NULL && strcmp(found, state) == 0;
}

/* No such schema, table or function. */
bool schema_is_missing(const struct libpq *pq, const PGresult *result)
{
    return is_state(pq, result, "3F000") || is_state(pq, result, "42P01")
           || is_state(pq, result, "42883");
}

#define VERSION_COLUMNS                                                                            \
    "version, coalesce(obj_description('weir'::regnamespace, 'pg_namespace'), '')"

static const char LOOK[] =
    "SELECT " VERSION_COLUMNS ", has_table_privilege('weir.bucket', 'SELECT')"
    " AND has_table_privilege('weir.bucket', 'INSERT')"
    " AND has_table_privilege('weir.bucket', 'UPDATE')"
    " AND has_table_privilege('weir.bucket', 'DELETE')"
    " AND has_any_column_privilege('weir.upkeep', 'UPDATE') FROM weir.upkeep";

static void say_missing(const struct postgres_url *url, struct weir_error *error)
{
    (void)fail(error, WEIR_E_SYSTEM, 0,
               "this database has no schema of weir; this makes it: weir store init '%s'",
               url->shown);
}

enum session_result schema_refuse(const struct libpq *pq, PGconn *connection,
                                  const PGresult *result, const struct postgres_url *url,
                                  struct weir_error *error)
{
    bool is_error = !talk_is_done(pq, result);
    if (is_error && schema_is_missing(pq, result)) {
        say_missing(url, error);
    } else if (!is_error || is_state(pq, result, "42501")) {
        (void)fail(
            error, WEIR_E_SYSTEM, 0,
            "this role may not use the schema of weir; its owner lets it in: weir store init "
            "URL --role NAME");
    } else if (is_state(pq, result, "42703")) {
        (void)fail(error, WEIR_E_SYSTEM, 0,
                   "the schema named weir there is somebody else's: weir.upkeep has other columns");
    } else {
        talk_say_result(error, pq, connection, result);
        return SESSION_AWAY;
    }
    return SESSION_REFUSED;
}

/* Which weir made a version first, from the comment on the schema: "version 2: weir 0.3.0". */
static const char *maker_of(int version, const char *comment)
{
    char start[32];
    int length = snprintf(start, sizeof start, "version %d: ", version);
    return strncmp(comment, start, (size_t)length) == 0 ? comment + length : NULL;
}

static enum session_result check_version(int version, const char *comment,
                                         const struct postgres_url *url, struct weir_error *error)
{
    const char *maker = maker_of(version, comment);
    if (version < POSTGRES_SCHEMA_VERSION) {
        (void)fail(
            error, WEIR_E_SYSTEM, 0,
            "the schema of weir there has version %d, and this weir needs %d; this brings it "
            "up to date: weir store migrate '%s'",
            version, POSTGRES_SCHEMA_VERSION, url->shown);
    } else if (version > POSTGRES_SCHEMA_VERSION) {
        (void)fail(
            error, WEIR_E_SYSTEM, 0,
            "the schema of weir there has version %d, and this weir knows %d: it needs %.64s",
            version, POSTGRES_SCHEMA_VERSION, maker != NULL ? maker : "a newer weir");
    }
    return version == POSTGRES_SCHEMA_VERSION ? SESSION_READY : SESSION_REFUSED;
}

static enum session_result say_no_row(struct weir_error *error)
{
    (void)fail(error, WEIR_E_SYSTEM, 0,
               "weir.upkeep there is empty, and says no version of the schema: INSERT INTO "
               "weir.upkeep (version) VALUES (%d) puts it right if this weir made it",
               POSTGRES_SCHEMA_VERSION);
    return SESSION_REFUSED;
}

enum session_result schema_check(const struct libpq *pq, PGconn *connection,
                                 const struct postgres_url *url, uint64_t until_ns,
                                 struct weir_error *error)
{
    PGresult *result = talk_ask(pq, connection, LOOK, until_ns);
    enum session_result checked;
    if (!talk_is_done(pq, result)) {
        checked = schema_refuse(pq, connection, result, url, error);
    } else if (pq->ntuples(result) != 1) {
        checked = say_no_row(error);
    } else {
        checked =
            check_version(atoi(pq->getvalue(result, 0, 0)), pq->getvalue(result, 0, 1), url, error);
    }
    if (checked == SESSION_READY && strcmp(pq->getvalue(result, 0, 2), "t") != 0) {
        checked = schema_refuse(pq, connection, result, url, error);
    }
    pq->clear(result);
    return checked;
}

/* ---- the text of init ---- */

/* In front of schema.sql and people.sql. The role may have timeouts. */
static const char BEGIN[] = "BEGIN;\n"
                            "SET LOCAL statement_timeout = 0;\n"
                            "SET LOCAL lock_timeout = 0;\n";

/* Unless somebody has said it of this version before. */
static const char COMMENT[] =
    "\n-- For a weir that is too old for this version.\n"
    "DO $$\n"
    "BEGIN\n"
    "    IF coalesce(obj_description('weir'::regnamespace, 'pg_namespace'), '') NOT LIKE 'version "
    "%d: %%' THEN\n"
    "        COMMENT ON SCHEMA weir IS 'version %d: weir " WEIR_VERSION " or newer';\n"
    "    END IF;\n"
    "END $$;\n";

static const char UNLOGGED[] = "\n-- Faster, and a crash of the database empties it.\n"
                               "ALTER TABLE weir.bucket SET UNLOGGED;\n";

static void write_schema(FILE *script, const struct database_plan *plan)
{
    (void)fprintf(script, "%s%s\n%s", BEGIN, SQL_SCHEMA, SQL_PEOPLE);
    (void)fprintf(script, COMMENT, POSTGRES_SCHEMA_VERSION, POSTGRES_SCHEMA_VERSION);
    (void)fprintf(script, "%s\nCOMMIT;\n", plan->is_unlogged ? UNLOGGED : "");
}

/* role.sql has :"role" where the name belongs, as a script of psql has. */
static void write_role(FILE *script, const char *name)
{
    static const char PLACE[] = ":\"role\"";
    const char *text = SQL_ROLE;
    for (const char *found; (found = strstr(text, PLACE)) != NULL; text = found + strlen(PLACE)) {
        (void)fwrite(text, 1, (size_t)(found - text), script);
        (void)fputc('"', script);
        for (const char *c = name; *c != '\0'; c++) {
            (void)fputs(*c == '"' ? "\"" : "", script);
            (void)fputc(*c, script);
        }
        (void)fputc('"', script);
    }
    (void)fputs(text, script);
}

/* The caller frees it. NULL: no memory. */
static char *make_script(const struct database_plan *plan, bool has_schema, bool has_role)
{
    char *text = NULL;
    size_t size;
    FILE *script = open_memstream(&text, &size);
    if (script == NULL) {
        return NULL;
    }
    if (has_schema) {
        write_schema(script, plan);
    }
    if (has_role) {
        (void)fputs(has_schema ? "\n" : "", script);
        write_role(script, plan->role);
    }
    if (fclose(script) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static enum weir_status check_plan(const struct database_plan *plan, struct weir_error *error)
{
    bool is_name =
        plan->role == NULL || (plan->role[0] != '\0' && strlen(plan->role) <= ROLE_NAME_MAX);
    return is_name ? WEIR_OK
                   : fail(error, WEIR_E_SYNTAX, 0, "the name of a role has 1 to %d bytes",
                          ROLE_NAME_MAX);
}

enum weir_status schema_script(const struct database_plan *plan, char **text,
                               struct weir_error *error)
{
    enum weir_status checked = check_plan(plan, error);
    *text = checked == WEIR_OK ? make_script(plan, true, plan->role != NULL) : NULL;
    return checked == WEIR_OK && *text == NULL
               ? fail(error, WEIR_E_NO_MEMORY, 0, "no memory for the schema")
               : checked;
}

/* ---- making it ---- */

/* What the schema says of itself.
 *   version  -1: there is none
 *   comment  on it */
struct found {
    int version;
    char comment[128];
};

static bool find_version(struct found *found, const struct libpq *pq, PGconn *connection,
                         const struct postgres_url *url, struct weir_error *error)
{
    PGresult *result = talk_ask(pq, connection, "SELECT " VERSION_COLUMNS " FROM weir.upkeep",
                                talk_now_ns() + TALK_PATIENCE_NS);
    bool is_row = talk_is_done(pq, result) && pq->ntuples(result) == 1;
    bool is_missing = schema_is_missing(pq, result);
    *found = (struct found){.version = -1};
    if (is_row) {
        found->version = atoi(pq->getvalue(result, 0, 0));
        (void)snprintf(found->comment, sizeof found->comment, "%s", pq->getvalue(result, 0, 1));
    } else if (talk_is_done(pq, result)) {
        (void)say_no_row(error);
    } else if (!is_missing) {
        (void)schema_refuse(pq, connection, result, url, error);
    }
    pq->clear(result);
    return is_row || is_missing;
}

/* Takes the text. If the role lacks a right, `remedy` says who has it. */
static enum weir_status run_script(const struct libpq *pq, PGconn *connection, char *text,
                                   const char *remedy, struct weir_error *error)
{
    if (text == NULL) {
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory for the schema");
    }
    PGresult *result = talk_ask(pq, connection, text, talk_now_ns() + SCHEMA_PATIENCE_NS);
    bool is_forbidden = is_state(pq, result, "42501");
    bool is_run = talk_settle(pq, connection, result, error);
    size_t length = strlen(error->message);
    if (!is_run && is_forbidden) {
        (void)snprintf(error->message + length, sizeof error->message - length, "%s", remedy);
    }
    free(text);
    return is_run ? WEIR_OK : WEIR_E_SYSTEM;
}

static const char OWNERS[] = "; that is for the owner of the database, or of the schema of weir";

static enum weir_status let_in(const struct libpq *pq, PGconn *connection,
                               const struct database_plan *plan, struct weir_error *error)
{
    struct weir_error why = {.message = ""};
    enum weir_status status = run_script(pq, connection, make_script(plan, false, true), "", &why);
    if (status != WEIR_OK) {
        (void)fail(error, status, 0,
                   "the schema is ready, and role %s is not: %.256s; a superuser can run what this "
                   "prints: weir store init --role '%s' --print",
                   plan->role, why.message, plan->role);
    }
    return status;
}

enum weir_status schema_init(const struct libpq *pq, PGconn *connection,
                             const struct postgres_url *url, const struct database_plan *plan,
                             struct weir_error *error)
{
    struct found found;
    enum weir_status status = check_plan(plan, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (!find_version(&found, pq, connection, url, error)
        || (found.version >= 0
            && check_version(found.version, found.comment, url, error) != SESSION_READY)) {
        return WEIR_E_SYSTEM;
    }
    status = run_script(pq, connection, make_script(plan, true, false), OWNERS, error);
    return status == WEIR_OK && plan->role != NULL ? let_in(pq, connection, plan, error) : status;
}

/* ---- migrating it ---- */

/* STEPS[v] brings version v to v + 1; schema.sql, which comes behind the last step, renews the functions. No release has
 * had version 0: it is that of a schema whose tables are those of version 1. */
static const char *const STEPS[POSTGRES_SCHEMA_VERSION] = {
    [0] = "SELECT 1;",
};

/* All of it is one transaction: nobody sees a half. */
static char *make_migration(int from)
{
    static const struct database_plan PLAN = {.role = NULL};
    char *text = NULL;
    size_t size;
    FILE *script = open_memstream(&text, &size);
    if (script == NULL) {
        return NULL;
    }
    for (int version = from; version < POSTGRES_SCHEMA_VERSION; version++) {
        (void)fputs(STEPS[version], script);
    }
    (void)fprintf(script, "UPDATE weir.upkeep SET version = %d;\n", POSTGRES_SCHEMA_VERSION);
    write_schema(script, &PLAN);
    if (fclose(script) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

enum weir_status schema_migrate(const struct libpq *pq, PGconn *connection,
                                const struct postgres_url *url,
                                struct database_migration *migration, struct weir_error *error)
{
    static const char LOCK[] = "SELECT pg_advisory_xact_lock(2003134834)"; // as schema.sql
    struct found found;
    uint64_t until_ns = talk_now_ns() + SCHEMA_PATIENCE_NS;
    if (!talk_run(pq, connection, BEGIN, until_ns, error)
        || !talk_run(pq, connection, LOCK, until_ns, error)
        || !find_version(&found, pq, connection, url, error)) {
        return WEIR_E_SYSTEM;
    }
    *migration = (struct database_migration){.from = found.version, .to = POSTGRES_SCHEMA_VERSION};
    if (found.version < 0) {
        say_missing(url, error);
        return WEIR_E_SYSTEM;
    }
    if (found.version >= POSTGRES_SCHEMA_VERSION) {
        return check_version(found.version, found.comment, url, error) == SESSION_READY
                   ? WEIR_OK
                   : WEIR_E_SYSTEM;
    }
    return run_script(pq, connection, make_migration(found.version), OWNERS, error);
}
