-- SPDX-License-Identifier: MIT
--
-- One take of one bucket.
--
--   $1      name of the bucket
--   $2      D
--   $3, $4  span of the take: ns, rest
--   $5, $6  its slack, how far beyond the reading the moment may be before it: ns, rest. That is full, or full and a
--           patience, less the span; below 2^62 ns
--   $7      reading, NULL: the clock
--
-- Returns one row of one array: ns, rest (the moment afterwards), took (1 or 0), at (the reading that decided).
--
-- What the statement's snapshot refuses is answered from there: it locks nothing and writes nothing. Anything else is
-- decided behind the lock of the row, by a function: so a refusal begins no part of a plan that writes, and that is most
-- of what a statement costs. OFFSET 0 keeps the subselect from being copied to where its column is used: the clock is
-- read once.
SELECT CASE WHEN NOT weir.fits(b.ns, b.rest, reading, $5::bigint, $6::bigint) THEN ARRAY[b.ns, b.rest, 0, reading]
            ELSE weir.charge($1, $2::bigint, $3::bigint, $4::bigint, $5, $6, $7, b.ns, b.rest, reading) END
FROM (SELECT weir.now_ns($7::bigint) AS reading OFFSET 0) AS clock LEFT JOIN weir.bucket AS b ON b.name = $1::uuid
