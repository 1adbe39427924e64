/* SPDX-License-Identifier: MIT
 *
 * Looking after a store in PostgreSQL, as store/database.h has it. */
#ifndef WEIR_STORE_POSTGRES_UPKEEP_H
#define WEIR_STORE_POSTGRES_UPKEEP_H

#include "store/database.h"

extern const struct database_upkeep postgres_upkeep;

#endif
