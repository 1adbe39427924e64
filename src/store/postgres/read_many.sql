-- SPDX-License-Identifier: MIT
--
-- The moments of several buckets. Locks nothing, writes nothing.
--
--   $1  names[]
--   $2  reading, NULL: the clock
--
-- Returns a row per name, in any order: i (the index, from 1), ns, rest (both 0: no such bucket), at (one reading).
SELECT i::integer, coalesce(b.ns, 0) AS ns, coalesce(b.rest, 0) AS rest, reading AS at
FROM (SELECT weir.now_ns($2::bigint) AS reading OFFSET 0) AS clock,
     unnest($1::uuid[]) WITH ORDINALITY AS q (name, i)
     LEFT JOIN LATERAL (SELECT b.ns, b.rest FROM weir.bucket AS b WHERE b.name = q.name OFFSET 0) AS b ON true
