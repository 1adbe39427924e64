-- SPDX-License-Identifier: MIT
--
-- weir in PostgreSQL 14 or later: a table of buckets, and the functions that the statements beside this file call.
-- It may be applied again, and by several servers at once.
--
-- A bucket is the moment at which it will be empty: ns whole nanoseconds since 1970, and rest D-ths of one. D is the
-- denominator of its limit. A take brings D, its span (how far its cost moves the moment) and full (how far beyond the
-- reading of the clock the moment may be afterwards). For example 10/s capacity=10: D is 1, the span of a unit
-- 100,000,000 ns, full 1,000,000,000 ns. So a take is an addition with carry and a comparison of integers, and exact.
--
-- Where the numbers of a limit have changed, a stored rest may be D or more. Such a moment counts as one nanosecond
-- more, and no rest: hence least(rest, d).
--
-- Every statement locks rows in the order of their names: so no two statements wait for each other. It reads the clock
-- behind the lock: so a take that had to wait for the lock is not decided at an old reading.

BEGIN;

DO $$
BEGIN
    PERFORM pg_advisory_xact_lock(2003134834); -- "weir": two servers cannot create the same thing at once
    SET LOCAL client_min_messages = warning;   -- no notices of what is there already
END $$;

CREATE SCHEMA IF NOT EXISTS weir;

-- One row. version: of this file. next_page: where prune() goes on.
CREATE TABLE IF NOT EXISTS weir.upkeep (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    version   integer NOT NULL,
    next_page bigint  NOT NULL DEFAULT 0
);
INSERT INTO weir.upkeep (version) VALUES (1) ON CONFLICT (one) DO NOTHING;

DO $$
DECLARE
    found_version integer := (SELECT version FROM weir.upkeep);
BEGIN
    IF found_version <> 1 THEN
        RAISE EXCEPTION 'the schema weir has version %, and this weir knows version 1', found_version;
    END IF;
END $$;

-- name  16 bytes of a hash of the limit's identity and the key. A uuid compares as memcmp() does.
-- note  what DO UPDATE tells RETURNING, which sees nothing else of it: 2^32 * the index of the take in its statement,
--       plus how many takes were let in. Nothing reads it later.
--
-- Half of each page is left free for the next versions of its rows, and only the name has an index. So an update
-- changes one page and no index ("heap-only"), and dead versions go without a vacuum.
CREATE TABLE IF NOT EXISTS weir.bucket (
    name uuid   NOT NULL PRIMARY KEY,
    ns   bigint NOT NULL,
    rest bigint NOT NULL,
    note bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The clock, in whole microseconds; or the reading that a test gives.
--
-- A double holds the seconds since 1970 to 2^-22 s until 2038, and to 2^-21 s until 2106: so rounding to microseconds
-- restores them exactly. extract(), which is numeric, says the same and takes 2 us longer.
CREATE OR REPLACE FUNCTION weir.now_ns(reading bigint)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT coalesce(reading, (date_part('epoch', clock_timestamp()) * 1000000)::bigint * 1000)
$$;

-- The arithmetic. The planner puts the bodies of these functions in the place of their calls, so a call costs nothing.

-- Leak first: a bucket whose moment is behind the reading starts at the reading, without a rest.
CREATE OR REPLACE FUNCTION weir.start_rest(ns bigint, rest bigint, reading bigint, d bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN ns < reading THEN 0 ELSE least(rest, d) END
$$;

-- The moment after k takes; for k = 0 the same moment, with a rest below D.
CREATE OR REPLACE FUNCTION weir.ns_after(ns bigint, rest bigint, reading bigint, k bigint, d bigint, s_ns bigint, s_rest bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(ns, reading) + k * s_ns + (weir.start_rest(ns, rest, reading, d) + k * s_rest) / d
$$;
CREATE OR REPLACE FUNCTION weir.rest_after(ns bigint, rest bigint, reading bigint, k bigint, d bigint, s_rest bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (weir.start_rest(ns, rest, reading, d) + k * s_rest) % d
$$;

-- Whether a take fits: start + span <= reading + full. In an empty bucket it does, because no span is longer than full.
-- Otherwise differences are compared: with limits of many years the sums are beyond a bigint.
CREATE OR REPLACE FUNCTION weir.fits(ns bigint, rest bigint, reading bigint, d bigint,
                                     s_ns bigint, s_rest bigint, f_ns bigint, f_rest bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ns < reading
        OR (ns - reading - (f_ns - s_ns) + (least(rest, d) + s_rest) / d, (least(rest, d) + s_rest) % d) <= (0, f_rest)
$$;

-- How many of n equal takes fit: floor((full - (start - reading)) / span), or n. Only where D > 1 does that need
-- numbers of any length.
CREATE OR REPLACE FUNCTION weir.how_many(n bigint, ns bigint, rest bigint, reading bigint, d bigint,
                                         s_ns bigint, s_rest bigint, f_ns bigint, f_rest bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN NOT weir.fits(ns, rest, reading, d, s_ns, s_rest, f_ns, f_rest) THEN 0
        WHEN n = 1 THEN 1
        WHEN d = 1 THEN least(n, (f_ns - (greatest(ns, reading) - reading) - weir.start_rest(ns, rest, reading, d)) / s_ns)
        ELSE least(n, div((f_ns - (greatest(ns, reading) - reading))::numeric * d
                          + f_rest - weir.start_rest(ns, rest, reading, d), s_ns::numeric * d + s_rest))::bigint
    END
$$;

-- A take of each of several buckets, all or nothing, at one reading. No name is there twice. A row for each name in
-- order: its moment afterwards, whether the take fits this bucket alone, the reading.
--
-- What is refused at first sight locks and writes nothing. Otherwise an upsert that changes nothing makes the rows
-- that are not there, and locks all of them, in the order of names; then it is decided again. (To make rows first and
-- to lock all of them afterwards would be two orders, and prune() could delete a row in between.)
CREATE OR REPLACE FUNCTION weir.take_run(names uuid[], d bigint[], s_ns bigint[], s_rest bigint[],
                                         f_ns bigint[], f_rest bigint[], reading bigint)
RETURNS TABLE (ns bigint, rest bigint, fits boolean, at bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    ns_of    bigint[];
    rest_of  bigint[];
    fits_of  boolean[];
    now_ns   bigint;
BEGIN
    FOR look IN 1..2 LOOP
        IF look = 2 THEN
            INSERT INTO weir.bucket (name, ns, rest, note)
            SELECT q.name, 0, 0, 0 FROM unnest(names) AS q (name) ORDER BY q.name
            ON CONFLICT (name) DO UPDATE SET note = 0 WHERE false;
        END IF;
        SELECT array_agg(b.ns ORDER BY q.i), array_agg(b.rest ORDER BY q.i), min(b.reading),
               array_agg(weir.fits(b.ns, b.rest, b.reading, q.d, q.s_ns, q.s_rest, q.f_ns, q.f_rest) ORDER BY q.i)
        INTO ns_of, rest_of, now_ns, fits_of
        FROM (SELECT weir.now_ns(take_run.reading) AS reading OFFSET 0) AS clock,
             unnest(names, d, s_ns, s_rest, f_ns, f_rest)
                 WITH ORDINALITY AS q (name, d, s_ns, s_rest, f_ns, f_rest, i),
             LATERAL (SELECT coalesce(max(b.ns), 0) AS ns, coalesce(max(b.rest), 0) AS rest, clock.reading
                      FROM weir.bucket AS b WHERE b.name = q.name) AS b;
        EXIT WHEN false = ANY (fits_of);
    END LOOP;
    IF true = ALL (fits_of) THEN
        SELECT array_agg(weir.ns_after(q.ns, q.rest, now_ns, 1, q.d, q.s_ns, q.s_rest) ORDER BY q.i),
               array_agg(weir.rest_after(q.ns, q.rest, now_ns, 1, q.d, q.s_rest) ORDER BY q.i)
        INTO ns_of, rest_of
        FROM unnest(ns_of, rest_of, d, s_ns, s_rest) WITH ORDINALITY AS q (ns, rest, d, s_ns, s_rest, i);

        INSERT INTO weir.bucket AS b (name, ns, rest, note)
        SELECT q.name, q.ns, q.rest, 1 FROM unnest(names, ns_of, rest_of) AS q (name, ns, rest)
        ON CONFLICT (name) DO UPDATE SET (ns, rest, note) = (SELECT excluded.ns, excluded.rest, excluded.note);
    END IF;
    RETURN QUERY SELECT q.ns, q.rest, q.fits, now_ns
                 FROM unnest(ns_of, rest_of, fits_of) WITH ORDINALITY AS q (ns, rest, fits, i) ORDER BY q.i;
END $$;

-- Deletes buckets that have been empty for a minute from the next pages of the table, and returns how many. A clock
-- that is set back by less than the minute finds every bucket that is not empty then.
--
-- Beside another prune() it does nothing. A row that somebody has locked stays, so it waits for nobody; and so does a
-- row that was charged meanwhile.
CREATE OR REPLACE FUNCTION weir.prune(pages integer, reading bigint DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    empty_before bigint := weir.now_ns(reading) - 60000000000;
    page         bigint;
    pruned       bigint;
BEGIN
    SELECT next_page INTO page FROM weir.upkeep FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM weir.bucket WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM weir.bucket
        WHERE ctid >= format('(%s,0)', page)::tid AND ctid < format('(%s,0)', page + pages)::tid AND ns < empty_before
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    page := page + pages;
    IF page * current_setting('block_size')::bigint >= pg_relation_size('weir.bucket') THEN
        page := 0;
    END IF;
    UPDATE weir.upkeep SET next_page = page;
    RETURN pruned;
END $$;

COMMIT;
