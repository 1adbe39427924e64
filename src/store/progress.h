/* SPDX-License-Identifier: MIT
 *
 * How far a store has come with what it was asked. A table decides at once, by a function call; a store that other
 * hosts share answers a round trip later (docs/design/stores.md). */
#ifndef WEIR_STORE_PROGRESS_H
#define WEIR_STORE_PROGRESS_H

enum progress {
    DECIDED, // the decisions are there
    PENDING, // it was asked, and will answer; nothing of the question is needed until then
};

#endif
