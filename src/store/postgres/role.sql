-- SPDX-License-Identifier: MIT
--
-- What a role of servers needs, and no more: `weir store init URL --role NAME` runs this behind schema.sql.
BEGIN;
DO $$
BEGIN
    PERFORM pg_advisory_xact_lock(2003134834); -- as schema.sql
END $$;

GRANT USAGE ON SCHEMA weir TO :"role";
GRANT SELECT, INSERT, UPDATE, DELETE ON weir.bucket TO :"role";
GRANT SELECT, UPDATE (next_page) ON weir.upkeep TO :"role";
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO :"role";

-- The settings that weir makes for each session itself. With prepare=off it does not: a pooler gives each transaction
-- another session, and then these count.
ALTER ROLE :"role" SET lock_timeout = '5ms';
ALTER ROLE :"role" SET statement_timeout = '500ms';
ALTER ROLE :"role" SET default_transaction_isolation = 'read committed';
ALTER ROLE :"role" SET plan_cache_mode = force_generic_plan;
ALTER ROLE :"role" SET enable_seqscan = off;
ALTER ROLE :"role" SET jit = off;

COMMIT;
