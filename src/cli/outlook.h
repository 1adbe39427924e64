/* SPDX-License-Identifier: MIT
 *
 * What a caller that waits in line can expect: its place, and about how long it waits. Both were true at the
 * instant when it joined. The time is counted down from there; the place is told once, for others may have left
 * the line since, and nobody says so. */
#ifndef WEIR_CLI_OUTLOOK_H
#define WEIR_CLI_OUTLOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/duration.h"

/*   turn_ns  when its turn comes, about, of monotonic_now_ns(); 0: not known
 *   place    1: it is the next; 0: not known
 *   is_told  it has been printed since the caller joined */
struct outlook {
    uint64_t turn_ns;
    uint64_t place;
    bool is_told;
};

/* "5th in line, about 25 s", and from the second time on "joined as 5th, about 12 s left", and in the end
 * "joined as 5th, any moment". Where the place is not known, only the time. `turn_ns` is known.
 * Returns `text`. */
enum { OUTLOOK_TEXT_MAX = DURATION_TEXT_MAX + 64 };
const char *outlook_print(struct outlook *outlook, uint64_t now_ns, char text[OUTLOOK_TEXT_MAX]);

#endif
