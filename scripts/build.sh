#!/usr/bin/env bash
# build.sh PRESET: installs what the build needs, if anything, and builds. For aarch64 its libraries are fetched, too.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh

need_build_tools
[ "$1" != aarch64 ] || need_aarch64
build "$1"
