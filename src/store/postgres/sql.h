/* SPDX-License-Identifier: MIT
 *
 * The SQL files of this folder, as texts: cmake/embed.cmake makes them. */
#ifndef WEIR_STORE_POSTGRES_SQL_H
#define WEIR_STORE_POSTGRES_SQL_H

extern const char SQL_SCHEMA[];
extern const char SQL_ROLE[];
extern const char SQL_STATUS[];
extern const char SQL_RESET[];
extern const char SQL_HOLDER[];
extern const char SQL_PEOPLE[];
extern const char SQL_SESSION[];
extern const char SQL_TAKE_ONE[];
extern const char SQL_TAKE_MANY[];
extern const char SQL_TAKE_RUN[];
extern const char SQL_READ_MANY[];
extern const char SQL_SWAP[];

#endif
