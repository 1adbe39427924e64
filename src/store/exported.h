/* SPDX-License-Identifier: MIT
 *
 * What a driver calls of libweir that lies in a library of its own (store/postgres). libweir exports names that begin
 * with weir_, and no others: so to the linker these do.
 *
 * Included by the headers that declare them. */
#ifndef WEIR_STORE_EXPORTED_H
#define WEIR_STORE_EXPORTED_H

#define attendant_store_decide weir_driver_decide
#define attendant_store_take   weir_driver_take
#define bucket_name            weir_driver_bucket_name
#define port_answered          weir_driver_answered
#define port_link_down         weir_driver_link_down
#define port_link_up           weir_driver_link_up
#define port_probe_answered    weir_driver_probe_answered
#define port_store_spoke       weir_driver_store_spoke

#endif
