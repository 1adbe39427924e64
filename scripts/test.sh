#!/usr/bin/env bash
# Installs what the tests need and passes everything: with gcc, with clang, under AddressSanitizer
# and UBSan, under ThreadSanitizer, and for aarch64. `test.sh PRESET...` runs these presets only. The results
# lie under build/test-results; the last line counts them. tests/README.md says what runs where, and why.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh

started=$SECONDS
RESULTS=$PWD/build/test-results
# More tests at once than there are processors: many wait most of the time, for a deadline or a limit's rate.
TESTS_AT_ONCE=$((2 * $(nproc)))
# Nothing is left in the source tree.
unset PYTHONDONTWRITEBYTECODE # images for containers set it: then each worker of pytest translates all tests anew, for 4 s
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

# in_ctest RUN [ARGUMENT...]: a run is a preset, or PRESET-HOW.
in_ctest() {
    local preset=$1 log=$RESULTS/ctest-$1.log at_once=$TESTS_AT_ONCE
    case $1 in
        aarch64-*) at_once=$(nproc) ;; # qemu computes all the time
        asan | tsan) at_once=$(($(nproc) + 1)) ;;
    esac
    progress "$preset: C tests"
    ctest --test-dir "build/${preset%%-*}" -j "$at_once" --timeout 600 -LE soak \
        --output-on-failure --no-tests=error --output-junit "$RESULTS/ctest-$preset.xml" \
        "${@:2}" >"$log" 2>&1 || grep -vE '^ *[0-9/]+ Test .* Passed|^ +Start ' "$log" || true
    [ -s "$RESULTS/ctest-$preset.xml" ] || broken "ctest of $preset (see $log)"
}

# in_pytest RUN ARGUMENT...: dev-later is dev, with the store behind a wire. PRESET-database is for tests that bring a
# database: it has 20 ms to answer, and shares this machine with them, so few run at once.
in_pytest() {
    local preset=$1 log=$RESULTS/pytest-$1.log binary=$PWD/build/${1%%-*}/weir at_once=$TESTS_AT_ONCE
    case $1 in
        dev-later) binary=$PWD/build/dev/weir-delayed ;;
        *-database) at_once=$(nproc) ;;
    esac
    wait "$FETCHING" || return 0 # it is counted at the end
    progress "$preset: system tests"
    WEIR_PRESET=${preset%%-*} WEIR_BINARY=$binary build/venv/bin/python -m pytest -c tests/pytest.ini -q -n "$at_once" \
        --dist worksteal --junitxml "$RESULTS/pytest-$preset.xml" -o "junit_suite_name=$preset" \
        "${@:2}" >"$log" 2>&1 || tail -n 200 "$log"
    [ -s "$RESULTS/pytest-$preset.xml" ] || broken "pytest with $preset (see $log)"
}

# What qemu-user cannot run: it accepts all advice about memory and follows none, and has no single steps.
# So weir refuses there what processes share, by a sentence, and these tests need that.
SHARING='example\.shared_file|unit\.(block|limiter|lock|matrix|membership|shared_.*|store_(file|home))'
SHARING+='|conformance\.(file|forked)|concurrency\.shared_lines.*|processes\..*'
# What does not depend on the processor, and takes long: arithmetic, and the explorer's orders.
ELSEWHERE='property\..*|concurrency\.explore_.*'

# What one compiler shows well enough.
ONCE='processes\.(kill_random|kill_mix|same_answers|resize|waiting_steps)'

# As the first 64-bit processors are (ARMv8.0, without LSE); what threads do to each other as the latest, too.
in_qemu() {
    progress "aarch64: left out, qemu-user cannot: $SHARING"
    progress "aarch64: left out, no matter of the processor: $ELSEWHERE"
    QEMU_CPU=cortex-a72 in_ctest aarch64-a72 -E "^($SHARING|$ELSEWHERE)\$"
    QEMU_CPU=max in_ctest aarch64-max -R '^concurrency\.' -E "^($SHARING|$ELSEWHERE)\$"
}

# give_way N: from here on, to what is less nice.
give_way() { renice -n "$1" -p "$BASHPID" >/dev/null 2>&1 || true; }

# Builds all presets, one after the other, and says of each whether it could. Those behind the first are built beside
# the tests, and give way to them. So do the tests under qemu, which take the time that others only wait; but they
# get some of it in any case, for they have deadlines, too. They report to descriptor 3.
build_all() {
    local preset log way=0 built=''
    for preset in "${PRESETS[@]}"; do
        log=$RESULTS/build-$preset.log
        if wants "$preset" && { [ "$preset" != aarch64 ] || need_aarch64; } >"$log" 2>&1 && (give_way "$way" && build "$preset") >>"$log" 2>&1
        then built+=" $preset"; say "$preset built"; else say "$preset broken"; fi
        way=15
    done
    give_way 10
    [[ $built != *" aarch64"* ]] || in_qemu >&3 3>&-
    say "aarch64 tested"
}

# wait_for_build PRESET: false if it could not be built.
wait_for_build() {
    local preset='' how=''
    progress "$1: building"
    while [ "$preset" != "$1" ] && read -r preset how <&"$BUILDS"; do :; done
    [ -s "$RESULTS/build-$1.log" ] && cat "$RESULTS/build-$1.log"
    [ "$preset $how" = "$1 built" ] || { broken "the build of $1"; return 1; }
}

# wait_for_qemu: until the tests have ended that build_all runs last.
wait_for_qemu() {
    local preset='' how=''
    progress "aarch64: the rest of its C tests"
    while [ "$preset $how" != "aarch64 tested" ] && read -r preset how <&"$BUILDS"; do :; done
}

run_preset() {
    if [ "$1" = aarch64 ] && ! is_x86_64; then
        progress "aarch64: not here, it is built on an x86-64; dev tests the processor of this machine"
        return
    fi
    wait_for_build "$1" || return 0
    case $1 in
        dev)
            in_ctest dev && in_pytest dev -m 'not soak and not database' tests
            in_pytest dev-database -m 'database and not soak' tests/system tests/conformance
            in_pytest dev-later -m 'not slow and not once and not soak and not storeless and not database' tests/system
            ;;
        clang) in_ctest clang -E "^($ONCE)\$" ;;
        asan)
            in_ctest asan && in_pytest asan -m 'not slow and not once and not soak and not database' tests
            in_pytest asan-database -m 'database and not slow and not once and not soak' tests/system
            ;;
        tsan)
            in_ctest tsan && in_pytest tsan -m 'not alone and not slow and not once and not soak and not database' tests/system
            in_pytest tsan-database -m 'database and not alone and not slow and not once and not soak' tests/system
            ;;
        aarch64) wait_for_qemu ;;
        *) fail "no tests for preset $1" ;;
    esac
}

prepare() {
    local missing mb
    missing=$(missing_for_tests)
    ! wants aarch64 || missing+=$(missing_for_aarch64)
    say "make test:"
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086 # a list of words
        mb=$(download_mb $missing)
        say "  installs from Debian, starting no service (${mb:-up to 300} MB to fetch, 2 to 4 minutes):"
        say "    $missing"
    fi
    if [ ! -d build/stamps ]; then
        say "  fetches by lock file into build/ (about 15 MB): pytest, hypothesis, redis-py, psycopg2, xdist;"
        say "    node-redis, ioredis; go-redis"
    fi
    say "  then builds and tests with gcc, clang, the sanitizers, and for aarch64: about 14 minutes on 2 cores."
    say "  Nothing is fetched the next time."
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install_for_tests $missing
}

PRESETS=("$@")
[ $# -gt 0 ] || PRESETS=(dev clang asan tsan aarch64)
# wants PRESET: true if it is to be tested, and can be here.
wants() { [[ " ${PRESETS[*]} " == *" $1 "* ]] && { [ "$1" != aarch64 ] || is_x86_64; }; }
prepare
rm -rf "$RESULTS" && mkdir -p "$RESULTS"
fetch_languages >"$RESULTS/fetch.log" 2>&1 &
FETCHING=$!
exec 3>&1 {BUILDS}< <(build_all) 3>&-
for preset in "${PRESETS[@]}"; do run_preset "$preset"; done
if ! wait "$FETCHING"; then
    cat "$RESULTS/fetch.log"
    broken "the packages of a lock file could not be fetched (is the network there?)"
fi
progress "done"
exec "$PYTHON" scripts/test_summary.py "$RESULTS" tests/allowed-skips
