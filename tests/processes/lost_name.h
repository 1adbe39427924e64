/* SPDX-License-Identifier: MIT
 *
 * A file that loses its name under the people who have it open, and how they go on.
 *
 *     lost_begin("deleted", "10/d");
 *     people_fill_up(4);
 *     lost_must(unlink(lost.path) == 0, "delete");
 *     lost_must_regain(STORE_CARRIED);
 *     lost_must_remain(6);
 *     lost_finish(); */
#ifndef WEIR_TESTS_PROCESSES_LOST_NAME_H
#define WEIR_TESTS_PROCESSES_LOST_NAME_H

#include "limiter/shared_lines/shared_move.h"
#include "people.h"

enum { LOST_FILE_BYTES = 1 << 20 };

/*   path   of the file, as it is opened; and its url
 *   other  another name in the same folder */
struct lost {
    char folder[48];
    char path[128];
    char other[128];
    char url[160];
};
extern struct lost lost;

/* Before everything else, and at the end: the folder. */
void lost_init(const char *name);
void lost_fini(void);

/* A file of its own for each scenario, and a line. At the end nobody may wait, and nothing be left beside the file. */
void lost_begin(const char *name, const char *limit);
void lost_finish(void);

/* Ends the test, with errno: "KEY: cannot WHAT". */
void lost_must(bool done, const char *what);

void lost_copy(const char *to);

/* Has this process go on under the name. */
enum weir_status lost_regain(struct store_regained *regained, struct weir_error *error);
enum weir_status lost_regain_with(struct line_mover *lines, struct store_regained *regained,
                                  struct weir_error *error);

/* Ends the test if that fails, or has another outcome. */
struct store_regained lost_must_regain(enum store_outcome outcome);

/* Ends the test if another process, which opens the file by its name, finds that not so many units are left. */
void lost_must_remain(uint64_t count);

#endif
