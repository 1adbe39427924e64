-- SPDX-License-Identifier: MIT
--
-- What every connection sets before it prepares a statement. Behind a pooler that gives each transaction another
-- connection the role has to bring these settings: ALTER ROLE .. SET.
SET plan_cache_mode = force_generic_plan; -- planned once
SET enable_seqscan = off; -- that plan was made when the table was small, and has to do when it is large
SET jit = off;
