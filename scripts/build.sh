#!/usr/bin/env bash
# build.sh PRESET: installs what the build needs, if anything, and builds.
. "$(dirname "$0")/lib.sh"
need_build_tools
build "$1"
