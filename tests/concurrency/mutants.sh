#!/usr/bin/env bash
# mutants.sh COMPILER FOLDER [EVERY]: breaks a copy of what the explorer walks through (CHAPTERS) with each
# tests/mutants/table_*.patch, and sees to it that the explorer notices. Fails if a patch no
# longer applies, or breaks nothing that counts. EVERY: tries one in so many of them, not all.
set -euo pipefail
cd "$(dirname "$0")/../.."
compiler=$1 folder=$2 every=${3:-1} root=$PWD
patches=("$root"/tests/mutants/table_*.patch)
CHAPTERS=(places.h slots.c single.c table.c block.c moving.c together.c together_usual.c)
FLAGS=(-std=c17 -O2 -D_GNU_SOURCE -Itests/concurrency/shim -Itests/concurrency -Iinclude -Isrc)
# A family of scripts each, the quickest to find something first.
WALKS=("1 return-2x3 3" "1 reuse-2x3 7" "2 pair-2x3 3" "1 chain-2x3 5" "1 pair-2x3 3" "1 mark-2x3 1"
    "1 move-2x3 1" "1 carry-2x3 1" "1 both-2x2 1" "2 fresh-2x2 1" "1 back-2x3 0" "1 whole-2x2 1")
# Those for who breaks what block.c is about.
BLOCK_WALKS=("2 lock-2x2 1" "2 swap-2x2 1" "1 let-2x2 1" "2 let-2x2 1" "1 out-2x2 1" "2 out-2x2 1" "2 run-2x2 1" "2 run-2x2 0")
# And for those that drop live buckets.
DROP_WALKS=("1 drop-2x3 1" "1 lag-2x3 1")
NOTICED='VIOLATION|Assertion' # of the explorer, or of the table itself
if [ "$(uname -m)" = x86_64 ]; then FLAGS+=(-mcx16); fi

rm -rf "$folder"
mkdir -p "$folder"
for slots in 1 2; do # all but the table
    for source in tests/concurrency/explore*.c src/core/*.c; do
        "$compiler" "${FLAGS[@]}" -DTABLE_LINE_SLOTS=$slots -c "$source" \
            -o "$folder/$(basename "$source" .c).$slots.o"
    done
done

# explorer FOLDER SLOTS: sees to it that the explorer of such lines is there.
explorer() {
    [ -x "$1/explore_$2" ] || "$compiler" -I"$1/src" "${FLAGS[@]}" -w -DTABLE_LINE_SLOTS="$2" \
        "$1"/src/store/table/*.c "$folder"/*."$2".o -o "$1/explore_$2"
}

# caught FOLDER: true if a walk through the table there finds something.
caught() {
    local walk slots family every walks=("${WALKS[@]}")
    [[ $1 != */table_block_* ]] || walks=("${BLOCK_WALKS[@]}")
    [[ $1 != */table_drop* ]] || walks=("${DROP_WALKS[@]}")
    for walk in "${walks[@]}"; do
        read -r slots family every <<<"$walk"
        explorer "$1" "$slots"
        # In a shell of its own, which does not tell of an abort.
        if ! (ulimit -c 0 && "$1/explore_$slots" "$family" "$every" >"$1/walk.log" 2>&1) 2>/dev/null; then
            grep -Eq "$NOTICED" "$1/walk.log" || return 1 # it crashed: that is not noticing
            return 0
        fi
    done
    return 1
}

# try PATCH: says whether it is caught.
try() {
    local name
    name=$(basename "$1" .patch)
    mkdir -p "$folder/$name/src/store/table"
    cp "${CHAPTERS[@]/#/src/store/table/}" "$folder/$name/src/store/table/"
    # Not as a part of the repository that the folder lies in.
    GIT_CEILING_DIRECTORIES=$folder git -C "$folder/$name" apply -C1 "$1"
    if ! caught "$folder/$name"; then
        printf 'MISSED  %-28s %s\n' "$name" "$(head -n 1 "$1")"
        return 1
    fi
    printf 'caught  %-28s %s\n' "$name" "$(grep -Em1 "$NOTICED" "$folder/$name/walk.log")"
}

# As many at once as there are processors, each in a shell of its own: what ends one ends no other.
for ((i = 0; i < ${#patches[@]}; i += every)); do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    (
        trap '[ $? = 0 ] || : >"$folder/missed"' EXIT
        try "${patches[i]}"
    ) &
done
wait
[ ! -e "$folder/missed" ]
