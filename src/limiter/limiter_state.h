/* SPDX-License-Identifier: MIT
 *
 * What a limiter is made of, for the files of this folder and for the server, whose connections stand
 * in its lines. */
#ifndef WEIR_LIMITER_LIMITER_STATE_H
#define WEIR_LIMITER_LIMITER_STATE_H

#include "limiter/identity.h"
#include "limiter/lines/lines.h"
#include "limiter/submissions.h"
#include "store/store.h"

struct weir_limiter {
    struct store *store;
    struct lines *lines;
    struct submissions submissions;
    struct identity_source identity;
};

#endif
