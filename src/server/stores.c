/* SPDX-License-Identifier: MIT */
#include "server/stores.h"

#include "weir/postgres.h"

const struct weir_store_driver *const STORE_DRIVERS[] = {&weir_postgres_driver, NULL};
