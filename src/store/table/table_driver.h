/* SPDX-License-Identifier: MIT
 *
 * How a table is opened by its URL: "memory:", and "file:". */
#ifndef WEIR_STORE_TABLE_TABLE_DRIVER_H
#define WEIR_STORE_TABLE_TABLE_DRIVER_H

#include "store/driver.h"

extern const struct weir_store_driver MEMORY_DRIVER;
extern const struct weir_store_driver FILE_DRIVER;

#endif
