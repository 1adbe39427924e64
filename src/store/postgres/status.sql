-- SPDX-License-Identifier: MIT
--
-- What `weir store status` says, as one row without NULLs. Any role may read all of this; what is in weir.upkeep is asked
-- separately, because a role may lack the right.
WITH weir AS (
    SELECT oid FROM pg_namespace WHERE nspname = 'weir'
), relation AS (
    SELECT c.* FROM pg_class AS c JOIN weir ON c.relnamespace = weir.oid WHERE c.relkind = 'r'
), bucket AS (
    SELECT *, pg_relation_size(oid) / current_setting('block_size')::bigint AS pages
    FROM relation WHERE relname = 'bucket'
), needed (relname, what) AS (
    VALUES ('bucket', 'SELECT'), ('bucket', 'INSERT'), ('bucket', 'UPDATE'), ('bucket', 'DELETE'),
           ('upkeep', 'SELECT'), ('upkeep', 'UPDATE')
), lacking (place, what) AS (
    SELECT 1, 'USAGE on schema weir' FROM weir WHERE NOT has_schema_privilege(oid, 'USAGE')
    UNION ALL
    SELECT 2, what || ' on weir.' || relname FROM relation JOIN needed USING (relname)
    WHERE NOT CASE WHEN what = 'DELETE' THEN has_table_privilege(oid, what)
                   ELSE has_any_column_privilege(oid, what) END -- DELETE is no right of columns
    UNION ALL
    SELECT 3, 'EXECUTE on weir.' || proname FROM pg_proc JOIN weir ON pronamespace = weir.oid
    WHERE NOT has_function_privilege(pg_proc.oid, 'EXECUTE')
), brought AS (
    SELECT name || '=' || current_setting(name) AS setting FROM pg_settings
    WHERE source IN ('database', 'user', 'database user')
), unset (setting) AS ( -- what role.sql gives to a role, and takes wait or are planned badly without
    SELECT 'lock_timeout=5ms' FROM pg_settings
    WHERE name = 'lock_timeout' AND NOT setting::bigint BETWEEN 1 AND 250
    UNION ALL
    SELECT 'statement_timeout=500ms' FROM pg_settings
    WHERE name = 'statement_timeout' AND NOT setting::bigint BETWEEN 1 AND 25000
    UNION ALL
    SELECT 'enable_seqscan=off' WHERE current_setting('enable_seqscan') <> 'off'
    UNION ALL
    SELECT 'default_transaction_isolation=read committed'
    WHERE current_setting('default_transaction_isolation') <> 'read committed'
)
SELECT 'PostgreSQL ' || current_setting('server_version'),
       current_user,
       coalesce((SELECT string_agg(what, ', ' ORDER BY place, what) FROM lacking), ''),
       coalesce((SELECT string_agg(setting, ', ' ORDER BY setting) FROM brought), ''),
       coalesce((SELECT string_agg(setting, ', ') FROM unset), ''),
       current_setting('synchronous_commit'),
       coalesce(to_char(greatest(s.last_vacuum, s.last_autovacuum) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ''),
       bucket.relpersistence = 'u',
       CASE WHEN bucket.reltuples > 0 AND bucket.relpages > 0
            THEN (bucket.reltuples / bucket.relpages * bucket.pages)::bigint
            ELSE coalesce(s.n_live_tup, 0) END,
       pg_table_size(bucket.oid),
       pg_indexes_size(bucket.oid),
       bucket.pages,
       coalesce(s.n_tup_upd, 0),
       coalesce(s.n_tup_hot_upd, 0),
       coalesce(s.n_dead_tup, 0)
FROM bucket LEFT JOIN pg_stat_all_tables AS s ON s.relid = bucket.oid
