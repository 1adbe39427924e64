/* SPDX-License-Identifier: MIT
 *
 * `weir serve`. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

/* Serves until SIGTERM or SIGINT. argv[0] is not looked at, what follows are the options of
 * `weir serve`. Returns the exit code: 0 drained (or --help), 2 a bad option, 3 it could not start.
 * Startup only: it blocks signals, sets limits of the process and starts threads. */
int server_main(int argc, char **argv);

#endif
