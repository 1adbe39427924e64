-- SPDX-License-Identifier: MIT
--
-- Takes of several buckets, each for itself. No name is there twice. Of one bucket there may be several equal takes,
-- one after the other: as many of them go in as fit.
--
--   $1      names[]
--   $2      D[]
--   $3, $4  span[] of one take: ns, rest
--   $5, $6  slack[] of one take: how far beyond the reading the moment may be before it. Below 2^62 ns
--   $7      how many takes[], at least 1. Their rests are added up, so: below 2^22
--   $8      how many of these takes fit an empty bucket[]
--   $9      reading, NULL: the clock
--
-- Returns a row per name, in any order: i (the index, from 1), ns, rest (the moment afterwards), took (how many went
-- in), at (the reading).
--
-- What the snapshot refuses is answered from there, and anything else is decided behind the lock of its row. The reading
-- that is returned of these was taken behind the lock, too, a few microseconds after the one that decided, which RETURNING
-- cannot see. The rows are locked in the order of names: the Sort stands directly below the Insert.
--
-- DO UPDATE sees the columns of the row that was proposed, and no others: so the note carries the index. All numbers come
-- from the arrays by it: copying each row from one part of the plan to the next is dearer than all the arithmetic.
WITH asked AS MATERIALIZED (
    SELECT name, i, b.ns, b.rest, reading,
           b.ns IS NULL OR weir.fits(b.ns, b.rest, reading, ($5::bigint[])[i], ($6::bigint[])[i]) AS fits
    FROM (SELECT weir.now_ns($9::bigint) AS reading OFFSET 0) AS clock,
         unnest($1::uuid[]) WITH ORDINALITY AS q (name, i)
         LEFT JOIN LATERAL (SELECT b.ns, b.rest FROM weir.bucket AS b WHERE b.name = q.name OFFSET 0) AS b ON true
), taken AS (
    INSERT INTO weir.bucket AS b (name, ns, rest, note)
    SELECT name, reading + n_empty * ($3::bigint[])[i] + n_empty * ($4::bigint[])[i] / ($2::bigint[])[i],
           n_empty * $4[i] % $2[i], i << 32 | n_empty
    FROM (SELECT name, i, reading, ($8::integer[])[i]::bigint AS n_empty FROM asked WHERE fits) AS new ORDER BY name
    ON CONFLICT (name) DO UPDATE SET room = NULL, (ns, rest, note) = (
        SELECT weir.ns_after(b.ns, b.rest, reading, d, k * s_ns, k * s_rest),
               weir.rest_after(b.ns, b.rest, reading, d, k * s_rest), excluded.note >> 32 << 32 | k
        FROM (SELECT q.*, weir.how_many(n, b.ns, b.rest, reading, d, s_ns, s_rest, slack_ns, slack_rest) AS k
              FROM (SELECT weir.now_ns($9) AS reading, $2[excluded.note >> 32] AS d,
                           $3[excluded.note >> 32] AS s_ns, $4[excluded.note >> 32] AS s_rest,
                           $5[excluded.note >> 32] AS slack_ns, $6[excluded.note >> 32] AS slack_rest,
                           ($7::integer[])[excluded.note >> 32] AS n
                    OFFSET 0) AS q
              OFFSET 0) AS decided)
    RETURNING b.note, b.ns, b.rest, weir.now_ns($9) AS at
)
SELECT (note >> 32)::integer AS i, ns, rest, (note & x'ffffffff'::bigint)::integer AS took, at FROM taken
UNION ALL
SELECT i::integer, ns, rest, 0, reading FROM asked WHERE NOT fits
