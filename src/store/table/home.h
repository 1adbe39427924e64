/* SPDX-License-Identifier: MIT
 *
 * Coming to memory that processes share, and leaving it: as a member, of whom others can tell whether it is alive
 * (platform/membership.h). home.c opens with what the first one to come does. */
#ifndef WEIR_STORE_TABLE_HOME_H
#define WEIR_STORE_TABLE_HOME_H

#include "store/table/file_header.h"

/* Which machine since its start, and which file on it, as 16 bytes. */
struct weir_bucket home_of(const uint64_t boot_id[2], uint64_t inode);

/* Makes this process a member of the table's memory: before it locks anything in it. False, with errno, as
 * membership_begin() and membership_join(). Thread-safe. */
bool table_join(struct table *table);

/* Of the root: the same in the child of a fork, for all tables that it leads to. True at once where another
 * thread has done it. */
bool table_join_again(struct table *root);

/* The opposite: of a table that nobody uses any longer, or that was inherited and never joined. */
void table_leave(struct table *table);

#endif
