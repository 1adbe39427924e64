/* SPDX-License-Identifier: MIT
 *
 * A file of another size for the same buckets, while processes use them. resize.c opens with how. */
#ifndef WEIR_STORE_TABLE_RESIZE_H
#define WEIR_STORE_TABLE_RESIZE_H

#include "store/upkeep.h"

/* Gives the file another size. Whoever has it open goes on in the new one by itself. After a failure, or a
 * death at any instant, either everything is as it was or all of it is done. A file that has these sizes
 * already is left alone: they are the same before and after.
 *   WEIR_OK       done, and on the disk
 *   WEIR_E_RANGE  the buckets do not fit, or those who wait; nothing has changed
 *   WEIR_E_FILE, WEIR_E_SYSTEM, WEIR_E_NO_MEMORY: nothing has changed */
enum weir_status resize_file(const struct resize_config *config, struct resize_report *report,
                             struct weir_error *error);

#endif
