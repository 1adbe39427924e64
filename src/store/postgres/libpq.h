/* SPDX-License-Identifier: MIT
 *
 * libpq, PostgreSQL's client library. It is not linked: it comes with TLS, Kerberos and LDAP, twenty libraries that take
 * 5 ms to load, and most who run weir have no PostgreSQL. So it is loaded when the first store is opened.
 *
 *     const struct libpq *pq = libpq_load(&error);
 *     if (pq->status(connection) == CONNECTION_BAD) { ... PQstatus() ... } */
#ifndef WEIR_STORE_POSTGRES_LIBPQ_H
#define WEIR_STORE_POSTGRES_LIBPQ_H

#include <libpq-fe.h>

#include "weir/status.h"

/* What weir calls of it; libpq of PostgreSQL 14 or later has all of it. */
#define LIBPQ_MAP(X)                                                                               \
    X(clear)                                                                                       \
    X(connectPoll)                                                                                 \
    X(connectStartParams)                                                                          \
    X(conninfoFree)                                                                                \
    X(conninfoParse)                                                                               \
    X(connectdbParams)                                                                             \
    X(consumeInput)                                                                                \
    X(enterPipelineMode)                                                                           \
    X(errorMessage)                                                                                \
    X(exec)                                                                                        \
    X(finish)                                                                                      \
    X(flush)                                                                                       \
    X(freemem)                                                                                     \
    X(getResult)                                                                                   \
    X(getisnull)                                                                                   \
    X(getlength)                                                                                   \
    X(getvalue)                                                                                    \
    X(isBusy)                                                                                      \
    X(nfields)                                                                                     \
    X(ntuples)                                                                                     \
    X(pingParams)                                                                                  \
    X(pipelineSync)                                                                                \
    X(resultErrorField)                                                                            \
    X(resultStatus)                                                                                \
    X(sendPrepare)                                                                                 \
    X(sendQuery)                                                                                   \
    X(sendQueryParams)                                                                             \
    X(sendQueryPrepared)                                                                           \
    X(setErrorVerbosity)                                                                           \
    X(setNoticeReceiver)                                                                           \
    X(setnonblocking)                                                                              \
    X(socket)                                                                                      \
    X(status)

/* PQclear() is pq->clear(), and so on. */
struct libpq {
#define LIBPQ_FIELD(name) __typeof__(PQ##name) *name; // GNU: the headers say their types already
    LIBPQ_MAP(LIBPQ_FIELD)
#undef LIBPQ_FIELD
};

/* Loads it, once in the life of the process. NULL if it cannot be: the error says which package is missing.
 * Thread-safe. */
const struct libpq *libpq_load(struct weir_error *error);

#endif
