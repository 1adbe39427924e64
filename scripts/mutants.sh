#!/usr/bin/env bash
# Breaks weir on purpose, one way at a time, and sees the tests notice each.
#
#     scripts/mutants.sh [NAME...]      all of tests/mutants/, or those whose names begin so
#
# A mutant is a patch whose first line says what it breaks and ends "Caught by TEST, TEST." (names of
# ctest; system.x is tests/system/test_x.py, system.x::test_y one test of it). It counts as caught if it
# builds and one of its tests fails. The exit code is 0 if all are caught.
#
# As many at once as there are processors, each in a copy of the sources in build/mutants, never in the
# working tree. What is built of a copy without a mutant is kept: it comes back after each, with the times of
# its files, so that only what a mutant has touched is compiled, once, and with little optimisation.
# Those of the table (table_*) are left to tests/concurrency/mutants.sh, which comes last.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh
unset CI # an unused variable must not stop a mutant

FOLDER=$PWD/build/mutants
RESULTS=$FOLDER/results
MUTANTS=$PWD/tests/mutants
WORKERS=$(nproc)

# use_copy N: whatever follows is about this copy.
use_copy() {
    COPY=$FOLDER/$1
    BUILT=$COPY/build/dev
    LOG=$FOLDER/$1.log
}

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

# in_ctest NAMES: "|unit.bucket|explore"; in_pytest TEST...: what is slow, or long, is left out.
in_ctest() {
    ctest --test-dir "$BUILT" -R "^(${1:1})\$" --timeout 300 --stop-on-failure --no-tests=error
}
in_pytest() {
    WEIR_PRESET=dev WEIR_BINARY=$BUILT/weir PYTHONPYCACHEPREFIX=$PWD/build/pycache timeout 300 \
        build/venv/bin/python -m pytest -c tests/pytest.ini -p no:cacheprovider -q -x \
        -m 'not slow and not soak' "$@"
}

# run_tests TEST...: true if all pass; also if the mutant makes them hang, they fail.
run_tests() {
    local test names='' chosen=()
    for test in "$@"; do
        case $test in
            system.*::*) test=${test#system.} && chosen+=("tests/system/test_${test/::/.py::}") ;;
            system.*) chosen+=("tests/system/test_${test#system.}.py") ;;
            *) names+="|$test" ;;
        esac
    done
    { [ -z "$names" ] || in_ctest "$names" >>"$LOG" 2>&1; } \
        && { [ ${#chosen[@]} = 0 ] || in_pytest "${chosen[@]}" >>"$LOG" 2>&1; }
}

# build_tests TEST...
build_tests() {
    # shellcheck disable=SC2046 # a list of words
    ninja -C "$BUILT" -j 1 $(targets_of "$@") >>"$LOG" 2>&1
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
    [ ! -d "$COPY/built" ] || put_back
    (cd "$COPY" && cmake --preset dev -D CMAKE_C_FLAGS_RELWITHDEBINFO=-O1 >>"$LOG" 2>&1)
}

# keep_built; put_back: everything that is built.
keep_built() { rm -rf "$COPY/built" && cp -a "$BUILT" "$COPY/built"; }
put_back() { rm -rf "$BUILT" && cp -a "$COPY/built" "$BUILT"; }

# prepare N TEST...: makes the copy, and builds these tests without any mutant.
prepare() {
    use_copy "$1"
    copy_sources && build_tests "${@:2}" && keep_built
}

# files_of PATCH: which files it changes.
files_of() { sed -n 's|^+++ b/||p' "$1"; }

# try PATCH: says how it ended; false if the mutant survived, or is none.
try() {
    local tests files file outcome code=0
    read -ra tests <<<"$(tests_of "$1")"
    mapfile -t files < <(files_of "$1")
    [ ${#tests[@]} -gt 0 ] || { say "its first line names no test"; return 1; }
    patch -d "$COPY" -p1 -s --fuzz=0 --dry-run <"$1" >>"$LOG" 2>&1 \
        || { say "does not apply: renew the patch"; return 1; }
    for file in "${files[@]}"; do cp -p "$COPY/$file" "$COPY/$file.whole"; done
    patch -d "$COPY" -p1 -s --fuzz=0 --no-backup-if-mismatch <"$1"
    outcome="caught by ${tests[*]}"
    if ! build_tests "${tests[@]}"; then
        outcome="does not build: renew the patch" code=1
    elif run_tests "${tests[@]}"; then
        outcome="SURVIVED ${tests[*]}" code=1
    fi
    for file in "${files[@]}"; do mv "$COPY/$file.whole" "$COPY/$file"; done
    put_back
    say "$outcome"
    return $code
}

# try_one COUNT PATCH: in the copy of this slot of xargs; leaves a line in the results.
try_one() {
    local outcome code=0 started=$SECONDS
    use_copy "$MUTANTS_SLOT"
    outcome=$(try "$2") || code=1
    say "$code" >>"$RESULTS"
    printf '[%3d/%d] %-32s %s (%d s)\n' "$(wc -l <"$RESULTS")" "$1" "$(basename "$2" .patch)" \
        "$outcome" $((SECONDS - started))
}

# chosen NAME...: the patches whose names begin so.
chosen() {
    local name
    for name in "${@:-}"; do ls "$MUTANTS/$name"*.patch; done | grep -v /table_
}

if [ "${1:-}" = --one ]; then # one of those that the lines below start
    try_one "${@:2}"
    exit
fi

need_build_tools
pkg-config --exists cmocka || install_packages libcmocka-dev
mapfile -t patches < <(chosen "$@")
[ ${#patches[@]} -gt 0 ] || fail "no such mutant in tests/mutants"
say "${#patches[@]} mutants; first the tests without any, which must pass"
mapfile -t all_tests < <(for patch in "${patches[@]}"; do tests_of "$patch" | xargs -n 1; done | sort -u)
case " ${all_tests[*]}" in
    *" system."*) unless_stamped python fetch_python tests/requirements.lock || fail "no pytest" ;;
esac
for ((copy = 1; copy < WORKERS; copy++)); do prepare "$copy" "${all_tests[@]}" & done
prepare 0 "${all_tests[@]}" || fail "the tests do not build (see $LOG)"
wait
for ((copy = 1; copy < WORKERS; copy++)); do
    [ -d "$FOLDER/$copy/built" ] || fail "the tests do not build (see $FOLDER/$copy.log)"
done
run_tests "${all_tests[@]}" || fail "the tests fail without any mutant (see $LOG)"

: >"$RESULTS"
printf '%s\0' "${patches[@]}" | xargs -0 -n 1 -P "$WORKERS" --process-slot-var=MUTANTS_SLOT \
    bash scripts/mutants.sh --one ${#patches[@]}
failed=$(grep -c 1 "$RESULTS" || true)
say "$((${#patches[@]} - failed)) of ${#patches[@]} mutants caught, after $SECONDS s"
if [ $# = 0 ]; then
    say "the table's mutants, walked through in all interleavings"
    tests/concurrency/mutants.sh gcc "$FOLDER/concurrency" || failed=$((failed + 1))
fi
[ "$failed" = 0 ]
