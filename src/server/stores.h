/* SPDX-License-Identifier: MIT
 *
 * The stores that this program knows beside those of libweir. */
#ifndef WEIR_SERVER_STORES_H
#define WEIR_SERVER_STORES_H

#include "store/driver.h"

/* Ends with NULL. */
extern const struct weir_store_driver *const STORE_DRIVERS[];

#endif
