/* SPDX-License-Identifier: MIT
 *
 * How many connections each client address has: for --max-connections-per-address, and to know which stranger
 * to cut off. IPv6 counts by /64: a client that has one address there has them all. Only accepting and closing come here, so one
 * mutex is enough. */
#ifndef WEIR_SERVER_ADDRESS_TABLE_H
#define WEIR_SERVER_ADDRESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address_table;

/* Room for `address_count` different addresses, each at most `per_address_max` times.
 * NULL if there is no memory. */
struct address_table *address_table_open(size_t address_count, uint64_t per_address_max);
void address_table_close(struct address_table *table);

/* Counts one more connection, unless the address has its share already: then false. Thread-safe. */
bool address_table_enter(struct address_table *table, const uint8_t address[16]);

/* How many have entered and not left. Thread-safe. */
uint64_t address_table_count(struct address_table *table, const uint8_t address[16]);

/* Takes one that entered back. Thread-safe. */
void address_table_leave(struct address_table *table, const uint8_t address[16]);

#endif
