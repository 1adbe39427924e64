/* SPDX-License-Identifier: MIT
 *
 * Threads of a library, of which the program that embeds it need not know. */
#ifndef WEIR_PLATFORM_THREAD_H
#define WEIR_PLATFORM_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that no signal of the program comes to, but those that it raises itself: blocked, they would end the
 * program past its handlers. SIGBUS, if a file is cut short. False, with errno. */
bool thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

#endif
