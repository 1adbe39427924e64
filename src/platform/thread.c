/* SPDX-License-Identifier: MIT */
#include "platform/thread.h"

#include <errno.h>
#include <signal.h>

bool thread_start(pthread_t *thread, void *(*run)(void *context), void *context)
{
    static const int OWN[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
    sigset_t others, before;
    (void)sigfillset(&others);
    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++) {
        (void)sigdelset(&others, OWN[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &others, &before);
    int error = pthread_create(thread, NULL, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return error == 0;
}
