-- SPDX-License-Identifier: MIT
--
-- One take of one bucket.
--
--   $1      name of the bucket
--   $2      D
--   $3, $4  span of the take: ns, rest
--   $5, $6  how far beyond the reading the moment may be: full, or full and a patience. No shorter than the span,
--           and below 2^62 ns
--   $7      reading, NULL: the clock
--
-- Returns one row: ns, rest (the moment afterwards), took (1 or 0), at (the reading).
--
-- What the statement's snapshot refuses is answered from there: it locks nothing and writes nothing. Anything else is
-- decided behind the lock of the row. The reading that is returned was taken behind that lock, too, a few
-- microseconds after the one that decided, which RETURNING cannot see. Each OFFSET 0 keeps a subselect from being
-- copied to where its columns are used: the clock is read once.
WITH seen AS MATERIALIZED (
    SELECT b.ns, b.rest, reading,
           b.ns IS NULL
           OR weir.fits(b.ns, b.rest, reading, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint) AS fits
    FROM (SELECT weir.now_ns($7::bigint) AS reading OFFSET 0) AS clock
         LEFT JOIN weir.bucket AS b ON b.name = $1::uuid
), taken AS (
    INSERT INTO weir.bucket AS b (name, ns, rest, note)
    SELECT $1, reading + $3, $4, 1 FROM seen WHERE fits
    ON CONFLICT (name) DO UPDATE SET (ns, rest, note) = (
        SELECT weir.ns_after(b.ns, b.rest, reading, k, $2, $3, $4), weir.rest_after(b.ns, b.rest, reading, k, $2, $4), k
        FROM (SELECT reading, weir.how_many(1, b.ns, b.rest, reading, $2, $3, $4, $5, $6) AS k
              FROM (SELECT weir.now_ns($7) AS reading OFFSET 0) AS clock
              OFFSET 0) AS decided)
    RETURNING b.ns, b.rest, b.note::integer AS took, weir.now_ns($7) AS at
)
SELECT ns, rest, took, at FROM taken
UNION ALL
SELECT ns, rest, 0, reading FROM seen WHERE NOT fits
