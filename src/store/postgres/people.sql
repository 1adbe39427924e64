-- SPDX-License-Identifier: MIT
--
-- weir for SQL: takes from the buckets of schema.sql, for applications that have no server of weir.
--
--     SELECT * FROM weir.take('login', 'alice');        -- a limit that `weir store limit add` has compiled
--     SELECT * FROM weir.take_text('alice', '10/s');    -- one that SQL compiles, of kind bucket or queue
--
-- weir.decide() is the one place where something is decided. It decides as the C core does (core/bucket_math.h), in
-- numerics, which are integers here: D-ths of a nanosecond, and nothing is rounded but what is shown. The caller's
-- transaction keeps the row locked until it ends. So one that is refused locks no row (under READ COMMITTED).
--
-- It may be applied again, behind schema.sql and in the same transaction.

-- A limit with a name. Its bucket of a key is that of this name in the configuration of a server, and the numbers may
-- differ: what is kept is the moment at which it is empty.
--
--   text                canonical
--   identity            limiter/identity.h
--   d, scale            a cost of m millionths moves the moment by m * scale D-ths of a nanosecond
--   full_ns, full_rest  how far beyond the reading the moment may be
--   goes_first          of a queue, first=now
CREATE TABLE IF NOT EXISTS weir.limits (
    name           text    NOT NULL PRIMARY KEY,
    text           text    NOT NULL,
    identity       bytea   NOT NULL CHECK (octet_length(identity) = 16),
    kind           text    NOT NULL CHECK (kind IN ('bucket', 'queue')),
    goes_first     boolean NOT NULL,
    d              bigint  NOT NULL CHECK (d > 0),
    scale          bigint  NOT NULL CHECK (scale > 0),
    full_ns        bigint  NOT NULL CHECK (full_ns >= 0),
    full_rest      bigint  NOT NULL CHECK (full_rest >= 0 AND full_rest < d),
    capacity_micro bigint  NOT NULL CHECK (capacity_micro > 0)
);

-- What is answered. The names are those of docs/http.md. Intervals are rounded up to microseconds; retry_after is NULL
-- where retry_after_ns is -1. The level, in units, is rounded up to millionths.
DO $$
BEGIN
    IF to_regtype('weir.answer') IS NULL THEN
        CREATE TYPE weir.answer AS (
            verdict        text,
            capacity       bigint,
            remaining      bigint,
            level          numeric,
            retry_after    interval,
            reset_after    interval,
            delay          interval,
            retry_after_ns bigint,
            reset_after_ns bigint,
            delay_ns       bigint
        );
    END IF;
END $$;

CREATE OR REPLACE FUNCTION weir.interval_of(ns bigint)
RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN ns >= 0 THEN ((ns + 999) / 1000) * interval '1 microsecond' END
$$;

-- A word of a frame that is hashed: eight bytes, the lowest first.
CREATE OR REPLACE FUNCTION weir.word(number bigint)
RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT decode(regexp_replace(reverse(encode(int8send(number), 'hex')), '(.)(.)', E'\\2\\1', 'g'), 'hex')
$$;

-- store/bucket_name.h
CREATE OR REPLACE FUNCTION weir.bucket_name(identity bytea, key bytea)
RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(identity || key) FOR 16), 'hex')::uuid
$$;

CREATE OR REPLACE FUNCTION weir.limit_named(limit_name text)
RETURNS weir.limits LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_limit weir.limits;
BEGIN
    IF limit_name IS NULL THEN
        RAISE EXCEPTION 'the name of the limit is NULL' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT * INTO found_limit FROM weir.limits AS l WHERE l.name = limit_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no limit named ''%''', left(limit_name, 64)
            USING ERRCODE = 'undefined_object', HINT = 'weir store limit add NAME LIMIT URL';
    END IF;
    RETURN found_limit;
END $$;

-- Compiles what SQL can read exactly: [bucket | queue] COUNT/[N]UNIT [capacity=C]. Its bucket of a key is that of the
-- limit that is written out so, or in other words, in a request to a server.
CREATE OR REPLACE FUNCTION weir.limit_of_text(limit_text text)
RETURNS weir.limits LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    micro_max constant numeric := 1000000000000000000;  -- WEIR_MICRO_MAX
    span_max  constant numeric := 3155760000000000000;  -- WEIR_SPAN_NS_MAX: 100 years
    d_max     constant bigint := (1::bigint << 40) - 1; -- WEIR_DENOMINATOR_MAX
    words    text[];
    kind     integer;
    count    numeric;
    period   numeric;
    capacity numeric;
    common   bigint;
    parts    numeric;
    made     weir.limits;
    problem  text;
BEGIN
    IF limit_text IS NULL THEN
        RAISE EXCEPTION 'the limit is NULL' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(limit_text) <= 256 THEN -- WEIR_LIMIT_TEXT_MAX
        words := regexp_match(limit_text, '^ *(?:(bucket|queue) +)?([0-9]+(?:[.][0-9]{1,6})?)/([0-9]*)(ns|us|ms|s|min|h|d|w)'
                                          '(?: +(?:capacity|burst)=([0-9]+(?:[.][0-9]{1,6})?))? *$');
    END IF;
    IF words IS NULL THEN
        RAISE EXCEPTION 'SQL does not know the limit ''%'': it reads 10/s, 100/5min capacity=20 and queue 5/s',
            left(limit_text, 64)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'A limit of more words can be added by name: weir store limit add NAME LIMIT URL';
    END IF;
    kind := CASE WHEN words[1] = 'queue' THEN 1 ELSE 0 END; -- enum weir_kind
    count := words[2]::numeric * 1000000;
    period := coalesce(nullif(words[3], ''), '1')::numeric
              * CASE words[4] WHEN 'ns' THEN 1 WHEN 'us' THEN 1000 WHEN 'ms' THEN 1000000 WHEN 's' THEN 1000000000
                              WHEN 'min' THEN 60000000000 WHEN 'h' THEN 3600000000000
                              WHEN 'd' THEN 86400000000000 ELSE 604800000000000 END;
    capacity := coalesce(words[5]::numeric * 1000000, greatest(count, 1000000));
    problem := CASE WHEN count = 0 THEN 'the count is zero'
                    WHEN count > micro_max THEN 'the count is above 1000000000000'
                    WHEN period = 0 THEN 'the period is zero'
                    WHEN period > span_max THEN 'the period is above 100 years'
                    WHEN capacity = 0 THEN 'the capacity is zero'
                    WHEN capacity > micro_max THEN 'the capacity is above 1000000000000' END;
    IF problem IS NULL THEN
        common := gcd(count::bigint, period::bigint);
        made.d := count::bigint / common;
        made.scale := period::bigint / common;
        made.capacity_micro := capacity::bigint;
        parts := capacity * made.scale;
        problem := CASE WHEN made.d > d_max THEN 'the rate cannot be represented exactly; use a rounder count'
                        WHEN parts > span_max * made.d THEN 'a full bucket would take more than 100 years to empty' END;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'the limit ''%'' is out of range: %', limit_text, problem
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    made.text := limit_text;
    made.kind := CASE kind WHEN 1 THEN 'queue' ELSE 'bucket' END;
    made.goes_first := false;
    made.full_ns := div(parts, made.d);
    made.full_rest := mod(parts, made.d);
    made.identity := substring(sha256(weir.word(1 + (kind << 8)) || weir.word(made.d) || weir.word(made.scale)
                                      || weir.word(made.capacity_micro)) FOR 16);
    RETURN made;
END $$;

-- A cost in millionths.
CREATE OR REPLACE FUNCTION weir.micro_of(cost numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF cost IS NULL THEN
        RAISE EXCEPTION 'the cost is NULL' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF NOT (cost >= 0 AND cost <= 1000000000000) THEN -- NaN is above all numbers
        RAISE EXCEPTION 'the cost must be 0 to 1000000000000' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF cost <> round(cost, 6) THEN
        RAISE EXCEPTION 'the cost has more than six places after the point' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN trunc(cost * 1000000);
END $$;

CREATE OR REPLACE FUNCTION weir.key_bytes(key text)
RETURNS bytea LANGUAGE plpgsql STABLE AS $$
DECLARE
    bytes bytea := convert_to(key, 'UTF8');
BEGIN
    IF key IS NULL THEN
        RAISE EXCEPTION 'the key is NULL' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(bytes) NOT BETWEEN 1 AND 65535 THEN -- WEIR_KEY_BYTES_MAX
        RAISE EXCEPTION 'a key has 1 to 65535 bytes, not %', octet_length(bytes)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN bytes;
END $$;

-- Decides one take, can_take, refund or show.
--   reading  of the clock, for tests; NULL: of the database
--
-- The first look locks nothing. What it refuses, or finds that nothing would change, is answered from it. The second one
-- is behind the row's lock. A transaction with one snapshot for all of its statements locks at once, and fails with
-- 40001 if somebody has changed the row since the snapshot: what it could read otherwise would be old.
--
-- A displaced row (store/swap.h) says that its key is blocked, or was. The row of the block changes only while the row of
-- the bucket is locked. So it is read behind that lock, and need not be locked itself, unless the snapshot is old. Where
-- a block is over a charge makes the row a usual one again, and leaves the row of the block as it is: its time has
-- passed, and of a bucket that is not displaced nobody reads its rest.
CREATE OR REPLACE FUNCTION weir.decide(l weir.limits, operation text, key text, cost numeric, reading bigint)
RETURNS weir.answer LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    displaced_ns constant bigint := 7::bigint << 60; -- SWAP_DISPLACED_NS
    row_name   constant uuid := weir.bucket_name(l.identity, weir.key_bytes(key));
    cost_micro constant numeric := weir.micro_of(cost);
    d          constant numeric := l.d;
    span       constant numeric := cost_micro * l.scale;
    full_parts constant numeric := l.full_ns * d + l.full_rest;
    is_take    constant boolean := operation IN ('take', 'can_take');
    is_never   constant boolean := is_take AND cost_micro > l.capacity_micro;
    may_change constant boolean := operation IN ('take', 'refund') AND cost_micro > 0 AND NOT is_never;
    is_old     constant boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    is_locked  boolean := false;
    now_ns     bigint;
    seen       record;
    ends_ns    bigint;   -- when the block ends; NULL: none runs
    moment     numeric;  -- in D-ths of a nanosecond, as the reading and the level below
    next       numeric;
    now_parts  numeric;
    level      numeric;
    answer     weir.answer;
BEGIN
    LOOP
        IF may_change AND (is_old OR now_ns IS NOT NULL) THEN
            INSERT INTO weir.bucket (name, ns, rest, note) VALUES (row_name, 0, 0, 0)
            ON CONFLICT (name) DO UPDATE SET note = 0 WHERE false;
            is_locked := true;
        END IF;
        -- In an old snapshot a row that was pruned is still there, beside the one that was just made. To write it is 40001.
        SELECT clock.reading, coalesce(b.ns, 0) AS ns, coalesce(b.rest, 0) AS rest,
               coalesce(k.ns, 0) AS block_ns, coalesce(k.rest, 0) AS block_rest
        INTO seen
        FROM (SELECT weir.now_ns(decide.reading) AS reading OFFSET 0) AS clock
             LEFT JOIN LATERAL (SELECT c.ns, c.rest FROM weir.bucket AS c WHERE c.name = row_name
                                ORDER BY c.ns DESC LIMIT 1) AS b ON true
             LEFT JOIN LATERAL (SELECT c.ns, c.rest FROM weir.bucket AS c
                                WHERE b.ns >= displaced_ns AND c.name = weir.block_name(row_name)
                                ORDER BY c.ns DESC LIMIT 1) AS k ON true;
        IF is_old AND is_locked AND seen.ns >= displaced_ns THEN
            PERFORM FROM weir.bucket AS c WHERE c.name = weir.block_name(row_name) FOR UPDATE;
        END IF;
        now_ns := seen.reading;
        now_parts := now_ns * d;
        IF seen.ns >= displaced_ns THEN
            moment := seen.block_rest * d + least(seen.ns - displaced_ns, d);
            ends_ns := CASE WHEN seen.block_ns > now_ns THEN seen.block_ns END;
        ELSE
            moment := seen.ns * d + least(seen.rest, d);
            ends_ns := NULL;
        END IF;

        next := moment;
        answer.verdict := 'allowed';
        answer.retry_after_ns := -1;
        IF is_never THEN
            answer.verdict := 'never';
        ELSIF ends_ns IS NOT NULL AND (operation = 'show' OR (is_take AND cost_micro > 0)) THEN
            answer.verdict := 'blocked';
            answer.retry_after_ns := ends_ns - now_ns;
        ELSIF is_take AND cost_micro > 0 THEN
            next := greatest(moment, now_parts) + span;
            IF next > now_parts + full_parts THEN
                next := moment;
                answer.verdict := 'limited';
                answer.retry_after_ns := greatest(div(moment + span - full_parts + d - 1, d) - now_ns, 0);
            END IF;
        ELSIF operation = 'refund' AND cost_micro > 0 AND moment > now_parts THEN
            next := greatest(moment - span, now_parts);
        END IF;
        EXIT WHEN operation IN ('can_take', 'show') OR next = moment OR is_locked;
    END LOOP;

    IF operation IN ('take', 'refund') AND next <> moment THEN
        IF ends_ns IS NOT NULL THEN
            RAISE EXCEPTION 'this key is blocked until %: only weir itself can give back to it',
                to_timestamp(div(ends_ns, 1000000000))
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'weir refund KEY LIMIT --store URL';
        END IF;
        UPDATE weir.bucket SET ns = div(next, d), rest = mod(next, d) WHERE name = row_name;
    END IF;

    level := greatest(next - now_parts, 0);
    answer.capacity := div(l.capacity_micro, 1000000);
    answer.remaining := least(div(greatest(full_parts - level, 0), l.scale * 1000000::numeric), answer.capacity);
    answer.level := div(level + l.scale - 1, l.scale) * 0.000001;
    answer.reset_after_ns := greatest(div(next + d - 1, d) - now_ns, 0);
    answer.delay_ns := 0;
    IF l.kind = 'queue' AND is_take AND cost_micro > 0 AND answer.verdict = 'allowed' THEN
        level := CASE WHEN l.goes_first THEN level - span ELSE level END;
        answer.delay_ns := div(greatest(level, 0) + d - 1, d);
    END IF;
    answer.retry_after := weir.interval_of(answer.retry_after_ns);
    answer.reset_after := weir.interval_of(answer.reset_after_ns);
    answer.delay := weir.interval_of(answer.delay_ns);
    RETURN answer;
END $$;

-- Charges the cost if it fits.
CREATE OR REPLACE FUNCTION weir.take(limit_name text, key text, cost numeric DEFAULT 1)
RETURNS weir.answer LANGUAGE sql VOLATILE AS $$
    SELECT weir.decide(weir.limit_named(limit_name), 'take', key, cost, NULL)
$$;
CREATE OR REPLACE FUNCTION weir.take_text(key text, limit_text text, cost numeric DEFAULT 1)
RETURNS weir.answer LANGUAGE sql VOLATILE AS $$
    SELECT weir.decide(weir.limit_of_text(limit_text), 'take', key, cost, NULL)
$$;

-- Answers as a take would be answered, and charges nothing.
CREATE OR REPLACE FUNCTION weir.can_take(limit_name text, key text, cost numeric DEFAULT 1)
RETURNS weir.answer LANGUAGE sql VOLATILE AS $$
    SELECT weir.decide(weir.limit_named(limit_name), 'can_take', key, cost, NULL)
$$;

-- Gives back, never below empty.
CREATE OR REPLACE FUNCTION weir.refund(limit_name text, key text, cost numeric DEFAULT 1)
RETURNS weir.answer LANGUAGE sql VOLATILE AS $$
    SELECT weir.decide(weir.limit_named(limit_name), 'refund', key, cost, NULL)
$$;

-- Reads.
CREATE OR REPLACE FUNCTION weir.show(limit_name text, key text)
RETURNS weir.answer LANGUAGE sql VOLATILE AS $$
    SELECT weir.decide(weir.limit_named(limit_name), 'show', key, 0, NULL)
$$;
