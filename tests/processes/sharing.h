/* SPDX-License-Identifier: MIT
 *
 * What all tests here need. */
#ifndef WEIR_TESTS_PROCESSES_SHARING_H
#define WEIR_TESTS_PROCESSES_SHARING_H

#include <stddef.h>

/* Ends the test. */
__attribute__((format(printf, 1, 2), noreturn)) void give_up(const char *format, ...);

/* Memory that children share, zeroed. */
void *world_share(size_t bytes);

#endif
