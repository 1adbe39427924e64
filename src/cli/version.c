/* SPDX-License-Identifier: MIT
 *
 * What this build of weir is: its version, the parts that are in, and the clock it will use. */
#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "config/config.h"
#include "platform/clock_source.h"
#include "weir/version.h"

#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(WEIR_HAS_POSTGRES)
#define STORES "in PostgreSQL (libpq.so.5, where it is)"
#else
#define STORES "not in PostgreSQL (libpq-dev was not there)"
#endif

static const struct option VERSION_OPTIONS[] = {{NULL, NULL, NULL}};

static int run_version(const struct command *command, int count, char **words)
{
    struct arguments arguments = {.count = count, .words = words};
    const char *value;
    switch (arguments_next(&arguments, VERSION_OPTIONS, &value)) {
    case ARGUMENT_END: break;
    case ARGUMENT_HELP: command_help(command); return CLI_DONE;
    case ARGUMENT_WORD: return usage_error(command, "it takes no words");
    default: return usage_error(command, "%s", arguments.problem);
    }
    const char *yaml = config_library();
    (void)printf("weir %s\n"
                 "in this build: RESP2 and RESP3, HTTP/1.1 (jansson %s), buckets in memory and in "
                 "files, " STORES ", %s%s%s\n"
                 "compiler: " COMPILER "\n"
                 "clock: %s\n",
                 weir_version(), jansson_version_str(),
                 yaml != NULL ? "configuration (libyaml " : "no configuration (libyaml is not in",
                 yaml != NULL ? yaml : "", ")", clock_source());
    return CLI_DONE;
}

const struct command VERSION_COMMAND = {
    .name = "version",
    .words = "",
    .summary = "the version, what is in this build, and its clock",
    .about = "Says which version this is, what is in this build, and which clock it uses.",
    .examples = "    weir --version\n",
    .options = VERSION_OPTIONS,
    .run = run_version,
};
