-- SPDX-License-Identifier: MIT
--
-- What every connection sets before it prepares a statement. Behind a pooler that gives each transaction another
-- connection the role has to bring these settings: ALTER ROLE .. SET.
SET plan_cache_mode = force_generic_plan; -- planned once
SET enable_seqscan = off; -- that plan was made when the table was small, and has to do when it is large
SET jit = off;

-- A host that is lost between a statement and its sync leaves a transaction open, which holds its rows. No timeout of
-- statements ends that, only TCP does; and it asks after two hours unless it is told to ask sooner. A unix socket ignores
-- this.
SET tcp_keepalives_idle = 5; -- seconds
SET tcp_keepalives_interval = 1;
SET tcp_keepalives_count = 5;
SET tcp_user_timeout = 10000; -- milliseconds
