/* SPDX-License-Identifier: MIT
 *
 * All of libweir:
 *
 *     status.h    what can go wrong
 *     limit.h     limits as text, compiled
 *     decision.h  the answer
 *     bucket.h    one bucket in your own memory
 *     limiter.h   many buckets by key, shared by threads
 *     shaper.h    a line of your own items, each with the instant at which it may go
 *     clock.h     the clock they live by
 *
 * Link with -lweir (pkg-config weir). It needs libc and pthreads, nothing else. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/bucket.h"
#include "weir/clock.h"
#include "weir/decision.h"
#include "weir/limit.h"
#include "weir/limiter.h"
#include "weir/shaper.h"
#include "weir/status.h"
#include "weir/version.h"

#endif
