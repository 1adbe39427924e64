/* SPDX-License-Identifier: MIT
 *
 * What all tests here need. */
#ifndef WEIR_TESTS_PROCESSES_SHARING_H
#define WEIR_TESTS_PROCESSES_SHARING_H

#include <stdbool.h>
#include <stddef.h>

/* Ends the test. */
__attribute__((format(printf, 1, 2), noreturn)) void give_up(const char *format, ...);

/* This process, from now on, when there is too little time for all. */
void let_others_go_first(void);

/* Memory that children share, zeroed. */
void *world_share(size_t bytes);

/* Ends the test if anything lies in the folder but a file "store", which may be missing. `of_whom` says why it matters. */
void must_hold_store_only(const char *folder, const char *of_whom);

/* Whether the file system of a folder has files without a name. */
bool has_nameless_files(const char *folder);

/* This process, from now on, finds that no file system has them. False: the kernel cannot do that. */
bool forbid_nameless_files(void);

#endif
