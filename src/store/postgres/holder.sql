-- SPDX-License-Identifier: MIT
--
-- Who has used the table of buckets for the longest time, in words; no row if nobody does by now.
SELECT format('process %s of %s (%s), since %s', l.pid, coalesce(a.usename, '?'),
              coalesce(nullif(a.application_name, ''), 'unnamed'),
              coalesce(to_char(a.xact_start AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"'), '?'))
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a USING (pid)
WHERE l.relation = 'weir.bucket'::regclass AND l.granted AND l.pid <> pg_backend_pid()
ORDER BY a.xact_start LIMIT 1
