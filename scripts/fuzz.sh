#!/usr/bin/env bash
# Fuzzes every parser for FUZZ_SECONDS each (libFuzzer, with AddressSanitizer and UBSan). What it
# finds on the way stays under build/fuzz/corpus; what breaks a parser is named and kept.
. "$(dirname "$0")/lib.sh"
need_build_tools
has clang || install_packages clang libclang-rt-14-dev
build fuzz
found=0
for target in $(find build/fuzz -type f -name 'fuzz_*' -perm -u+x | sort); do
    name=$(basename "$target")
    name=${name#fuzz_}
    corpus=build/fuzz/corpus/$name
    mkdir -p "$corpus" "build/fuzz/findings"
    say "fuzz $name for ${FUZZ_SECONDS:-60} s"
    "$target" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=1024 \
        -artifact_prefix="build/fuzz/findings/$name-" -print_final_stats=1 \
        "$corpus" "tests/fuzz/corpus/$name" 2>"build/fuzz/$name.log" || found=1
    grep -E '^stat::number_of_executed|SUMMARY|Test unit written' "build/fuzz/$name.log" || true
done
[ "$found" = 0 ] || fail "a parser broke: see build/fuzz/findings and build/fuzz/*.log"
say "nothing found"
