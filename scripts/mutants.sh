#!/usr/bin/env bash
# Breaks weir on purpose, one way at a time, and sees the tests notice each.
#
#     scripts/mutants.sh [NAME...]      all of tests/mutants/, or those whose names begin so
#
# A mutant is a patch whose first line says what it breaks and ends "Caught by TEST, TEST." (names of
# ctest; system.x is tests/system/test_x.py). It is applied to a copy of the sources in build/mutants, never to the working tree. It counts
# as caught if it builds and one of its tests fails. The exit code is 0 if all are caught.
# Those of the table (table_*) are left to tests/concurrency/mutants.sh, which comes last.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh
unset CI # an unused variable must not stop a mutant
need_build_tools
pkg-config --exists cmocka || install_packages libcmocka-dev

COPY=$PWD/build/mutants
BUILT=$COPY/build/dev
LOG=$PWD/build/mutants.log
MUTANTS=$PWD/tests/mutants
JOBS=$(nproc)

# tests_of PATCH: "unit.bucket explore"
tests_of() { sed -n '1s/.*Caught by \(.*\)\.$/\1/p' "$1" | tr -d ','; }

# target_of TEST: the program behind a name of ctest.
target_of() {
    case $1 in
        unit.*) say "test_${1#unit.}" ;;
        conformance.*) say run_vectors ;;
        system.*) say weir ;;
        *.*) say "${1//./_}" ;;
        *) say "$1" ;;
    esac
}

targets_of() { for test in "$@"; do target_of "$test"; done | sort -u; }

# in_ctest NAMES: "|unit.bucket|explore"; in_pytest FILE...: what is slow, or long, is left out.
in_ctest() {
    ctest --test-dir "$BUILT" -R "^(${1:1})\$" --timeout 300 --stop-on-failure --no-tests=error
}
in_pytest() {
    WEIR_PRESET=dev WEIR_BINARY=$BUILT/weir PYTHONPYCACHEPREFIX=$PWD/build/pycache timeout 300 \
        build/venv/bin/python -m pytest -c tests/pytest.ini -q -x -m 'not slow and not soak' "$@"
}

# run_tests TEST...: true if all pass; also if the mutant makes them hang, they fail.
run_tests() {
    local test names='' files=()
    for test in "$@"; do
        case $test in
            system.*) files+=("tests/system/test_${test#system.}.py") ;;
            *) names+="|$test" ;;
        esac
    done
    { [ -z "$names" ] || in_ctest "$names" >>"$LOG" 2>&1; } \
        && { [ ${#files[@]} = 0 ] || in_pytest "${files[@]}" >>"$LOG" 2>&1; }
}

# build_tests TEST...
build_tests() {
    # shellcheck disable=SC2046 # a list of words
    ninja -C "$BUILT" -j "$JOBS" $(targets_of "$@") >>"$LOG" 2>&1
}

# What is tracked, or could be, as it is now. Files that are the same stay untouched, so that ninja
# builds only what has changed.
copy_sources() {
    local file
    mkdir -p "$COPY"
    : >"$LOG"
    while IFS= read -r -d '' file; do
        cmp -s "$file" "$COPY/$file" || cp --parents "$file" "$COPY" 2>>"$LOG" || true
    done < <(git ls-files -z --cached --others --exclude-standard)
    (cd "$COPY" && cmake --preset dev >>"$LOG" 2>&1) || fail "cmake failed (see $LOG)"
}

# try PATCH: says how it ended; false if the mutant survived, or is none.
try() {
    local tests
    read -ra tests <<<"$(tests_of "$1")"
    [ ${#tests[@]} -gt 0 ] || { say "its first line names no test"; return 1; }
    patch -d "$COPY" -p1 -s --no-backup-if-mismatch --dry-run <"$1" >>"$LOG" 2>&1 \
        || { say "does not apply: renew the patch"; return 1; }
    patch -d "$COPY" -p1 -s --no-backup-if-mismatch <"$1"
    local outcome="caught by ${tests[*]}" code=0
    if ! build_tests "${tests[@]}"; then
        outcome="does not build: renew the patch" code=1
    elif run_tests "${tests[@]}"; then
        outcome="SURVIVED ${tests[*]}" code=1
    fi
    patch -d "$COPY" -p1 -s -R --no-backup-if-mismatch <"$1"
    say "$outcome"
    return $code
}

# chosen NAME...: the patches whose names begin so.
chosen() {
    local name
    for name in "${@:-}"; do ls "$MUTANTS/$name"*.patch; done | grep -v /table_
}

mapfile -t patches < <(chosen "$@")
[ ${#patches[@]} -gt 0 ] || fail "no such mutant in tests/mutants"
say "${#patches[@]} mutants; first the tests without any, which must pass"
copy_sources
mapfile -t all_tests < <(for patch in "${patches[@]}"; do tests_of "$patch" | xargs -n 1; done | sort -u)
case " ${all_tests[*]}" in
    *" system."*) unless_stamped python fetch_python tests/requirements.lock || fail "no pytest" ;;
esac
build_tests "${all_tests[@]}" || fail "the tests do not build (see $LOG)"
run_tests "${all_tests[@]}" || fail "the tests fail without any mutant (see $LOG)"

failed=0 number=0
for patch in "${patches[@]}"; do
    number=$((number + 1))
    started=$SECONDS
    outcome=$(try "$patch") || failed=$((failed + 1))
    printf '[%2d/%d] %-28s %s (%d s)\n' $number ${#patches[@]} "$(basename "$patch" .patch)" \
        "$outcome" $((SECONDS - started))
done
say "$((${#patches[@]} - failed)) of ${#patches[@]} mutants caught"
if [ $# = 0 ]; then
    say "the table's mutants, walked through in all interleavings"
    tests/concurrency/mutants.sh gcc "$COPY/concurrency" || failed=$((failed + 1))
fi
[ "$failed" = 0 ]
