#!/usr/bin/env bash
# The long runs: what carries the label `soak` in ctest and the mark `soak` in pytest, for about
# SOAK_MINUTES each.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh
export SOAK_MINUTES=${SOAK_MINUTES:-30}
# shellcheck disable=SC2046 # a list of words
[ -z "$(missing_for_tests)" ] || install_for_tests $(missing_for_tests)
fetch_languages
build dev
ctest --test-dir build/dev -L soak --timeout 86400 --output-on-failure --no-tests=ignore
WEIR_BINARY=$PWD/build/dev/weir build/venv/bin/python -m pytest -c tests/pytest.ini -m soak tests \
    && code=0 || code=$?
[ "$code" = 0 ] || [ "$code" = 5 ] || exit "$code" # 5: no test carries the mark
