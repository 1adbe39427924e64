-- SPDX-License-Identifier: MIT
--
-- weir in PostgreSQL 14 or later: a table of buckets, and the functions that the statements beside this file call.
-- It may be applied again, and by several servers at once; as one transaction, with people.sql behind it.
--
-- A bucket is the moment at which it will be empty: ns whole nanoseconds since 1970, and rest D-ths of one. D is the
-- denominator of its limit. A take brings D, its span (how far its cost moves the moment) and its slack (how far beyond
-- the reading of the clock the moment may be before it). For example 10/s capacity=10: D is 1, the span of a unit
-- 100,000,000 ns, its slack 900,000,000 ns. So a take is an addition with carry and a comparison of integers, and exact.
--
-- Where the numbers of a limit have changed, a stored rest may be D or more. Such a moment counts as one nanosecond
-- more, and no rest: hence least(rest, d).
--
-- Every statement locks rows in the order of their names. So statements that are transactions of their own have no
-- deadlock; a transaction of several of them may. Every statement reads the clock behind the lock. So a take that had
-- to wait for the lock is not decided at an old reading.

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
--       Another 16 bytes, the last bit flipped, are the row of the key's block, if it has one (store/swap.h).
-- note  what a statement tells its RETURNING, which sees only the row: in take_many 2^32 * the index of the take in the
--       statement, plus how many takes were let in; take_run: the index; charge() says its own. Nothing reads it later.
-- room  16 bytes that a row brings, and that its first charge drops.
--
-- Part of each page is left free for the next versions of its rows, and only the name has an index. So an update
-- changes one page and no index ("heap-only"), and dead versions go without a vacuum: PostgreSQL clears a page that it
-- reads when less of it is free than the fillfactor left. New rows fill a page up to just there. So without `room` each
-- update would be followed by a clearing of the page for the sake of one version, a fifth of what a bare UPDATE costs;
-- with it by one in about thirteen.
--
-- Those versions count as dead until then, up to a quarter of all rows, and need no vacuum: hence its scale factor.
CREATE TABLE IF NOT EXISTS weir.bucket (
    name uuid   NOT NULL PRIMARY KEY,
    ns   bigint NOT NULL,
    rest bigint NOT NULL,
    note bigint NOT NULL,
    room uuid   DEFAULT '00000000-0000-0000-0000-000000000000'
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.3, autovacuum_vacuum_cost_delay = 0);

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

-- The moment after a take. After k equal takes: with a span k times as long.
CREATE OR REPLACE FUNCTION weir.ns_after(ns bigint, rest bigint, reading bigint, d bigint, s_ns bigint, s_rest bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(ns, reading) + s_ns + (weir.start_rest(ns, rest, reading, d) + s_rest) / d
$$;
CREATE OR REPLACE FUNCTION weir.rest_after(ns bigint, rest bigint, reading bigint, d bigint, s_rest bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (weir.start_rest(ns, rest, reading, d) + s_rest) % d
$$;

-- Whether a take fits: moment - reading <= slack. That is true of any moment behind the reading, where the bucket is
-- empty. A rest of D or more, a nanosecond more, needs no least() here: it is beyond the slack's rest, which is below D,
-- and so are D and no rest beyond it. Differences are compared, because with limits of many years the sums are beyond a
-- bigint.
CREATE OR REPLACE FUNCTION weir.fits(ns bigint, rest bigint, reading bigint, slack_ns bigint, slack_rest bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ns - reading, rest) <= (slack_ns, slack_rest)
$$;

-- How many of n equal takes fit: floor((slack - (start - reading)) / span) + 1, or n. Only where D > 1 does that need
-- numbers of any length.
CREATE OR REPLACE FUNCTION weir.how_many(n bigint, ns bigint, rest bigint, reading bigint, d bigint,
                                         s_ns bigint, s_rest bigint, slack_ns bigint, slack_rest bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN NOT weir.fits(ns, rest, reading, slack_ns, slack_rest) THEN 0
        WHEN n = 1 THEN 1
        WHEN d = 1 THEN least(n, (slack_ns - (greatest(ns, reading) - reading)
                                  - weir.start_rest(ns, rest, reading, d)) / s_ns + 1)
        ELSE least(n, div((slack_ns - (greatest(ns, reading) - reading))::numeric * d
                          + slack_rest - weir.start_rest(ns, rest, reading, d), s_ns::numeric * d + s_rest) + 1)::bigint
    END
$$;

-- A take that fits what take_one.sql has seen of its bucket: the row is charged if it is still as it was, and otherwise
-- the take is decided anew behind the lock of the row, whatever that is by then. The arguments are those of take_one.sql,
-- and (seen_ns, seen_rest), NULL of a bucket that is new, at the reading `seen_at`. Returns what take_one.sql does.
--
-- The first statement decides nothing, so it needs no clock and no arithmetic behind the lock: nobody has changed the
-- row between the reading and the lock. If it has waited in vain it has locked the row, and the second one does not wait.
--
-- A bucket that is NULL is none: with that a session calls it once, so that its statements are planned.
--
-- The note is the reading, or for a refusal its complement, which is negative: RETURNING sees only the row.
CREATE OR REPLACE FUNCTION weir.charge(bucket uuid, d bigint, s_ns bigint, s_rest bigint,
                                       slack_ns bigint, slack_rest bigint, test_reading bigint,
                                       seen_ns bigint, seen_rest bigint, seen_at bigint)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    answer bigint[];
BEGIN
    UPDATE weir.bucket AS b SET ns = weir.ns_after(seen_ns, seen_rest, seen_at, d, s_ns, s_rest),
                                rest = weir.rest_after(seen_ns, seen_rest, seen_at, d, s_rest), room = NULL
    WHERE b.name = bucket AND b.ns = seen_ns AND b.rest = seen_rest
    RETURNING ARRAY[b.ns, b.rest, 1, seen_at] INTO answer;
    IF FOUND THEN
        RETURN answer;
    END IF;
    INSERT INTO weir.bucket AS b (name, ns, rest, note)
    SELECT bucket, reading + s_ns, s_rest, reading FROM (SELECT weir.now_ns(test_reading) AS reading OFFSET 0) AS clock
    WHERE bucket IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET room = NULL, (ns, rest, note) = (
        SELECT CASE WHEN fits THEN weir.ns_after(b.ns, b.rest, reading, d, s_ns, s_rest) ELSE b.ns END,
               CASE WHEN fits THEN weir.rest_after(b.ns, b.rest, reading, d, s_rest) ELSE b.rest END,
               CASE WHEN fits THEN reading ELSE ~reading END
        FROM (SELECT reading, weir.fits(b.ns, b.rest, reading, slack_ns, slack_rest) AS fits
              FROM (SELECT weir.now_ns(test_reading) AS reading OFFSET 0) AS clock
              OFFSET 0) AS decided)
    RETURNING CASE WHEN b.note < 0 THEN ARRAY[b.ns, b.rest, 0, ~b.note] ELSE ARRAY[b.ns, b.rest, 1, b.note] END
    INTO answer;
    RETURN answer;
END $$;

-- A take of each of several buckets, all or nothing, at one reading. The arguments are those of take_one.sql. No name
-- is there twice. Returns a row for each name, in their order: its moment afterwards, whether the take fits this bucket
-- alone, the reading.
--
-- The first look decides only refusals: it locks nothing and writes nothing. Before the second look, an upsert that
-- changes nothing makes the rows that are missing and locks all of them, in the order of names. (First to make the
-- missing rows, then to lock all, would be two orders: a deadlock with a batch. And prune() could come in between.)
-- LIMIT 1 is for a transaction with an old snapshot: there a row that was pruned is still seen beside the new one.
CREATE OR REPLACE FUNCTION weir.take_run(names uuid[], d bigint[], s_ns bigint[], s_rest bigint[],
                                         slack_ns bigint[], slack_rest bigint[], reading bigint)
RETURNS TABLE (ns bigint, rest bigint, fits boolean, at bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    now_ns  bigint;
    ns_of   bigint[];
    rest_of bigint[];
    fits_of boolean[];
BEGIN
    FOR look IN 1..2 LOOP
        IF look = 2 THEN
            INSERT INTO weir.bucket (name, ns, rest, note)
            SELECT q.name, 0, 0, 0 FROM unnest(names) AS q (name) ORDER BY q.name
            ON CONFLICT (name) DO UPDATE SET note = 0 WHERE false;
        END IF;
        SELECT min(seen.reading), array_agg(seen.ns), array_agg(seen.rest), array_agg(seen.fits)
        INTO now_ns, ns_of, rest_of, fits_of
        FROM (SELECT clock.reading, coalesce(b.ns, 0) AS ns, coalesce(b.rest, 0) AS rest,
                     b.ns IS NULL
                     OR weir.fits(b.ns, b.rest, clock.reading, q.slack_ns, q.slack_rest) AS fits
              FROM (SELECT weir.now_ns(take_run.reading) AS reading OFFSET 0) AS clock,
                   unnest(names, slack_ns, slack_rest) WITH ORDINALITY AS q (name, slack_ns, slack_rest, i)
                   LEFT JOIN LATERAL (SELECT b.ns, b.rest FROM weir.bucket AS b WHERE b.name = q.name
                                      ORDER BY b.ns DESC LIMIT 1) AS b ON true
              ORDER BY q.i) AS seen;
        IF false = ANY (fits_of) THEN
            RETURN QUERY SELECT q.ns, q.rest, q.fits, now_ns
                         FROM unnest(ns_of, rest_of, fits_of) WITH ORDINALITY AS q (ns, rest, fits, i) ORDER BY q.i;
            RETURN;
        END IF;
    END LOOP;
    RETURN QUERY
    WITH taken AS (
        INSERT INTO weir.bucket AS b (name, ns, rest, note)
        SELECT q.name, weir.ns_after(q.ns, q.rest, now_ns, q.d, q.s_ns, q.s_rest),
               weir.rest_after(q.ns, q.rest, now_ns, q.d, q.s_rest), q.i
        FROM unnest(names, ns_of, rest_of, d, s_ns, s_rest) WITH ORDINALITY AS q (name, ns, rest, d, s_ns, s_rest, i)
        ON CONFLICT (name) DO UPDATE SET ns = excluded.ns, rest = excluded.rest, note = excluded.note, room = NULL
        RETURNING b.note AS i, b.ns, b.rest
    )
    SELECT taken.ns, taken.rest, true, now_ns FROM taken ORDER BY taken.i;
END $$;

-- Writes groups of rows, each as a whole if all of its rows are as they were read, and the reading is not too late. The
-- arguments are those of swap.sql. No name is there twice. Returns a row for each group.
--
-- The upsert is that of take_run(): it makes the rows that are missing, locks all in the order of names, and changes
-- nothing.
CREATE OR REPLACE FUNCTION weir.swap(names uuid[], seen_ns bigint[], seen_rest bigint[], next_ns bigint[],
                                     next_rest bigint[], not_after bigint[], groups integer[], reading bigint)
RETURNS TABLE (i integer, took integer)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    now_ns bigint;
BEGIN
    INSERT INTO weir.bucket (name, ns, rest, note)
    SELECT q.name, 0, 0, 0 FROM unnest(names) AS q (name) ORDER BY q.name
    ON CONFLICT (name) DO UPDATE SET note = 0 WHERE false;
    now_ns := weir.now_ns(swap.reading);
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT q.*, coalesce((b.ns, b.rest) = (q.seen_ns, q.seen_rest), false) AND now_ns <= q.not_after AS is_good
        FROM unnest(names, seen_ns, seen_rest, next_ns, next_rest, not_after, groups)
                 AS q (name, seen_ns, seen_rest, next_ns, next_rest, not_after, i)
             LEFT JOIN LATERAL (SELECT b.ns, b.rest FROM weir.bucket AS b WHERE b.name = q.name
                                ORDER BY b.ns DESC LIMIT 1) AS b ON true
    ), judged AS MATERIALIZED (
        SELECT asked.i, bool_and(asked.is_good) AS is_good FROM asked GROUP BY asked.i
    ), written AS (
        UPDATE weir.bucket AS b SET ns = asked.next_ns, rest = asked.next_rest, room = NULL
        FROM asked JOIN judged USING (i)
        WHERE judged.is_good AND b.name = asked.name
          AND (asked.next_ns, asked.next_rest) <> (asked.seen_ns, asked.seen_rest)
    )
    SELECT judged.i, judged.is_good::integer FROM judged;
END $$;

-- The name of the row of a block: the lowest bit of the last byte is the other one.
CREATE OR REPLACE FUNCTION weir.block_name(name uuid)
RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(set_bit(uuid_send(name), 120, 1 - get_bit(uuid_send(name), 120)), 'hex')::uuid
$$;

-- Deletes the buckets that have been empty for a minute from the next `pages` of the table, and returns how many. After
-- the last page comes the first. So a call takes a bounded time, however large the table is. The minute is for a clock
-- that is set back: a bucket that is not empty then is still there.
--
-- A bucket whose key is or was blocked is displaced: its ns is 7 * 2^60 or more, and its moment stands in the row of the
-- block, as the rest. So a row of either kind may go when ns and rest are both behind; and a displaced one when the row
-- of its block has gone, in a statement of its own behind the lock: the snapshot from before it does not see a block
-- that begins meanwhile. An isolation level with one snapshot for both leaves displaced rows alone.
--
-- It waits for no lock: a row that is locked stays, and beside another prune() it does nothing.
CREATE OR REPLACE FUNCTION weir.prune(pages integer, reading bigint DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    empty_before bigint := weir.now_ns(reading) - 60000000000;
    page         bigint;
    alone        uuid[];
    pruned       bigint;
    more         bigint;
BEGIN
    SELECT next_page INTO page FROM weir.upkeep FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM weir.bucket WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM weir.bucket
        WHERE ctid >= format('(%s,0)', page)::tid AND ctid < format('(%s,0)', page + pages)::tid
          AND ns < empty_before AND rest < empty_before
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    IF current_setting('transaction_isolation') = 'read committed' THEN
        alone := ARRAY(
            SELECT name FROM weir.bucket
            WHERE ctid >= format('(%s,0)', page)::tid AND ctid < format('(%s,0)', page + pages)::tid
              AND ns >= 7::bigint << 60
              AND NOT EXISTS (SELECT FROM weir.bucket AS block WHERE block.name = weir.block_name(bucket.name))
            FOR UPDATE SKIP LOCKED);
        DELETE FROM weir.bucket
        WHERE name = ANY (alone)
          AND NOT EXISTS (SELECT FROM weir.bucket AS block WHERE block.name = weir.block_name(bucket.name));
        GET DIAGNOSTICS more = ROW_COUNT;
    END IF;
    page := page + pages;
    IF page * current_setting('block_size')::bigint >= pg_relation_size('weir.bucket') THEN
        page := 0;
    END IF;
    UPDATE weir.upkeep SET next_page = page;
    RETURN pruned + coalesce(more, 0);
END $$;

-- What servers call to prune by turns: prunes if the next page is the one that the caller saw last. Then nobody else is at
-- it. Otherwise `pruned` is NULL. `page` is the next page now. What a crash forgets of it is pruned again, so it need not
-- wait for the disk; and the rows are locked for a shorter time.
CREATE OR REPLACE FUNCTION weir.prune_from(seen bigint, pages integer)
RETURNS TABLE (pruned bigint, page bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT next_page INTO page FROM weir.upkeep;
    IF page = seen THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        pruned := weir.prune(pages);
        SELECT next_page INTO page FROM weir.upkeep;
    END IF;
    RETURN NEXT;
END $$;
