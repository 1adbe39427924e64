/* SPDX-License-Identifier: MIT
 *
 * Names and texts of what the library answers. */
#include "weir/status.h"

#include "weir/decision.h"
#include "weir/version.h"

const char *weir_status_name(enum weir_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                                    \
    case name: return #name;
        WEIR_STATUS_MAP(CASE)
#undef CASE
    }
    return "unknown";
}

const char *weir_status_text(enum weir_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                                    \
    case name: return text;
        WEIR_STATUS_MAP(CASE)
#undef CASE
    }
    return "unknown";
}

const char *weir_verdict_word(enum weir_verdict verdict)
{
    switch (verdict) {
#define CASE(name, value, word)                                                                    \
    case name: return word;
        WEIR_VERDICT_MAP(CASE)
#undef CASE
    }
    return "unknown";
}

const char *weir_version(void)
{
    return WEIR_VERSION;
}
