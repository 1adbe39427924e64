/* SPDX-License-Identifier: MIT
 *
 * The version of these headers, and of the library that is linked. */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION "0.1.0"

/* The library's own WEIR_VERSION. A static string. Thread-safe. */
const char *weir_version(void);

#ifdef __cplusplus
}
#endif

#endif
