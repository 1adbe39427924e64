#!/usr/bin/env bash
# Breaks the concurrent table on purpose, one way at a time, and sees the tests notice each.
. "$(dirname "$0")/lib.sh"
need_build_tools
pkg-config --exists cmocka || install_packages libcmocka-dev
build dev
ctest --test-dir build/dev -L mutants --timeout 3600 --verbose --no-tests=error
