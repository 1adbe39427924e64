#!/usr/bin/env bash
# Installs what the tests need and passes everything: with gcc, with clang, under AddressSanitizer
# and UBSan, and under ThreadSanitizer. `test.sh PRESET...` runs these presets only. The results
# lie under build/test-results; the last line counts them.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh

started=$SECONDS
RESULTS=$PWD/build/test-results
JOBS=$(nproc)
# Nothing is left in the source tree.
export PYTHONPYCACHEPREFIX=$PWD/build/pycache HYPOTHESIS_STORAGE_DIRECTORY=$PWD/build/hypothesis
export NODE_PATH=$PWD/build/node/node_modules
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

progress() { printf '[%4d s] %s\n' $((SECONDS - started)) "$*"; }

# broken NAME: counts as one failure what ended before any test could report.
broken() {
    say "$1" >>"$RESULTS/broken"
    progress "FAILED: $1"
}

# in_ctest PRESET [ARGUMENT...]
in_ctest() {
    local preset=$1 log=$RESULTS/ctest-$1.log
    progress "$preset: C tests"
    ctest --test-dir "build/$preset" -j "$JOBS" --timeout 600 -LE 'soak|mutants' \
        --output-on-failure --no-tests=error --output-junit "$RESULTS/ctest-$preset.xml" \
        "${@:2}" >"$log" 2>&1 || grep -vE '^ *[0-9/]+ Test .* Passed|^ +Start ' "$log" || true
    [ -s "$RESULTS/ctest-$preset.xml" ] || broken "ctest of $preset (see $log)"
}

# in_pytest PRESET ARGUMENT...
in_pytest() {
    local preset=$1 log=$RESULTS/pytest-$1.log
    progress "$preset: system tests"
    WEIR_PRESET=$preset WEIR_BINARY=$PWD/build/$preset/weir build/venv/bin/python -m pytest -c tests/pytest.ini -q -n "$JOBS" \
        --dist worksteal --junitxml "$RESULTS/pytest-$preset.xml" -o "junit_suite_name=$preset" \
        "${@:2}" >"$log" 2>&1 || tail -n 200 "$log"
    [ -s "$RESULTS/pytest-$preset.xml" ] || broken "pytest with $preset (see $log)"
}

run_preset() {
    progress "$1: building"
    if ! build "$1"; then
        broken "the build of $1"
        return
    fi
    case $1 in
        dev) in_ctest dev && in_pytest dev -m 'not soak' tests ;;
        clang) in_ctest clang ;;
        asan) in_ctest asan && in_pytest asan -m 'not slow and not once and not soak' tests ;;
        # A server that one client asks has nothing to show to ThreadSanitizer.
        tsan) in_ctest tsan && in_pytest tsan -m 'not slow and not once and not soak' tests/system ;;
        *) fail "no tests for preset $1" ;;
    esac
}

prepare() {
    local missing mb
    missing=$(missing_for_tests)
    say "make test:"
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086 # a list of words
        mb=$(download_mb $missing)
        say "  installs from Debian, starting no service (${mb:-up to 270} MB to fetch, 2 to 4 minutes):"
        say "    $missing"
    fi
    if [ ! -d build/stamps ]; then
        say "  fetches by lock file into build/ (about 10 MB): pytest, hypothesis, redis-py, xdist;"
        say "    node-redis, ioredis; go-redis"
    fi
    say "  then builds and tests with gcc, clang and the sanitizers: about 23 minutes on 2 cores."
    say "  Nothing is fetched the next time."
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install_for_tests $missing
    fetch_languages || fail "could not fetch the packages of a lock file (is the network there?)"
}

prepare
rm -rf "$RESULTS" && mkdir -p "$RESULTS"
[ $# -gt 0 ] || set -- dev clang asan tsan
for preset in "$@"; do run_preset "$preset"; done
progress "done"
exec "$PYTHON" scripts/test_summary.py "$RESULTS" tests/allowed-skips
