#!/usr/bin/env bash
# Measures weir beside its peers and the machine's limits: ROWS=1,2,10 (default: all), QUICK=1 for a
# trial. With --docs it renews docs/performance.md and the figures of README.md from the results. With
# BEFORE=COMMIT it measures weir beside itself, as it was at that commit.
# A peer that cannot be had is a line of the report, never a failure.
. "$(dirname "$0")/lib.sh"
. scripts/test_packages.sh

PEERS=$PWD/build/peers
THROTTLECRAB=0.4.40

missing_for_bench() {
    has redis-server || printf 'redis-server '
    has redis-cli || printf 'redis-tools '
    has nginx || printf 'nginx '
    has haproxy || printf 'haproxy '
    has pv || printf 'pv '
    [ -e /usr/include/uthash.h ] || printf 'uthash-dev '
    ! has cargo || has protoc || printf 'protobuf-compiler ' # throttlecrab's build wants it
}

prepare_packages() {
    local missing
    missing=$(missing_for_bench)
    [ -n "$missing" ] || return 0
    say "Peers from Debian, of which no daemon is started: $missing"
    forbid_daemons
    # shellcheck disable=SC2086 # a list of words
    (install_packages $missing) || say "going on without: $missing"
    restore_daemons
}

# peer NAME FILE COMMAND...: builds it once; its log is build/peers/NAME.log.
peer() {
    local name=$1 file=$2
    shift 2
    [ ! -x "$file" ] || return 0
    say "Building $name (once; a minute or two)"
    "$@" >"$PEERS/$name.log" 2>&1 || say "going on without $name: see build/peers/$name.log"
}

build_xtime() (
    cd tests/bench/peers/xtime && go build -o "$PEERS/xtime/xtime-bench" .
)

prepare_peers() {
    mkdir -p "$PEERS/xtime"
    if has cargo; then
        peer governor "$PEERS/governor/release/governor-bench" \
            cargo build --release --locked --target-dir "$PEERS/governor" \
            --manifest-path tests/bench/peers/governor/Cargo.toml
        peer throttlecrab "$PEERS/throttlecrab/bin/throttlecrab-server" \
            cargo install --locked --version "$THROTTLECRAB" --root "$PEERS/throttlecrab" \
            throttlecrab-server
    fi
    if has_go; then
        peer xtime "$PEERS/xtime/xtime-bench" build_xtime
    fi
}

need_build_tools
prepare_packages
[ -n "${BEFORE:-}" ] || prepare_peers
build bench
export PYTHONDONTWRITEBYTECODE=1
if [ -n "${BEFORE:-}" ]; then
    exec "$PYTHON" tests/bench/before.py "$BEFORE" ${ROWS:+--rows "$ROWS"} ${QUICK:+--rounds 3 --keys 1000000}
fi
"$PYTHON" tests/bench/bench.py ${ROWS:+--rows "$ROWS"} ${QUICK:+--quick}
if [ "${1:-}" = --docs ]; then
    "$PYTHON" tests/bench/docs.py
fi
