/* SPDX-License-Identifier: MIT
 *
 * What pthread_cancel() must not cut in two. A thread that is cancelled unwinds from the next system call
 * that is a point of cancellation, and takes the locks it holds and the records on its stack with it. So
 * such calls stand between cancel_forbid() and cancel_allow(): the request waits until then.
 *
 *     int before = cancel_forbid();
 *     ...
 *     cancel_allow(before); */
#ifndef WEIR_SYNC_CANCEL_H
#define WEIR_SYNC_CANCEL_H

#include <pthread.h>

/* What cancel_allow() brings back: the caller may have forbidden it, too. */
static inline int cancel_forbid(void)
{
    int before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void cancel_allow(int before)
{
    int forbidden;
    (void)pthread_setcancelstate(before, &forbidden);
}

#endif
