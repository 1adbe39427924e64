-- SPDX-License-Identifier: MIT
--
-- Forgets all buckets. The lock on the table is asked for a moment only: takes that come meanwhile stand behind it.
BEGIN;
SET LOCAL lock_timeout = '50ms';
SET LOCAL statement_timeout = 0;
TRUNCATE weir.bucket;
UPDATE weir.upkeep SET next_page = 0;
COMMIT;
