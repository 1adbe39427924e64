/* SPDX-License-Identifier: MIT */
#include "server/stores.h"

const struct weir_store_driver *const STORE_DRIVERS[] = {NULL};
