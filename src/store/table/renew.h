/* SPDX-License-Identifier: MIT
 *
 * Making a file new that cannot be relied on any longer. */
#ifndef WEIR_STORE_TABLE_RENEW_H
#define WEIR_STORE_TABLE_RENEW_H

#include "weir/status.h"

/* Forgets all that is in a file behind its header, without a look at it: buckets, blocks, locks, lines and events.
 * Sizes, seed and rights stay. Its time begins anew.
 *   path         absolute
 *   WEIR_OK      done, and on the disk. A death in the middle leaves a file for which it has to be done again
 *   WEIR_E_FILE  it is in use, or its header is damaged too: nothing has changed
 *   WEIR_E_SYSTEM, WEIR_E_NO_MEMORY: as table_open_file() */
enum weir_status table_renew_file(const char *path, struct weir_error *error);

#endif
