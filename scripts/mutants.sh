#!/usr/bin/env bash
# Breaks weir on purpose, one way at a time, and sees the tests notice each.
#
#     scripts/mutants.sh [NAME...] [OPTION...]     all, or tables (core) and mutants (core.no_clamp)
#
# tests/mutants/README.md tells the rest, mutants.py --help the options.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh

need_build_tools
pkg-config --exists cmocka || install_packages libcmocka-dev
unless_stamped python fetch_python tests/requirements.lock || fail "no pytest"
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$PWD/build/pycache # nothing is left in the source tree
exec "$PYTHON" tests/mutants/mutants.py run "$@"
