/* SPDX-License-Identifier: MIT
 *
 * What all tests here need. */
#ifndef WEIR_TESTS_PROCESSES_SHARING_H
#define WEIR_TESTS_PROCESSES_SHARING_H

#include <stddef.h>

/* Ends the test. */
__attribute__((format(printf, 1, 2), noreturn)) void give_up(const char *format, ...);

/* This process, from now on, when there is too little time for all. */
void let_others_go_first(void);

/* Memory that children share, zeroed. */
void *world_share(size_t bytes);

#endif
