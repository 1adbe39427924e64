#!/usr/bin/env bash
# Builds weir and serves on loopback, from memory. RESP and HTTP name the addresses.
. "$(dirname "$0")/lib.sh"
RESP=${RESP:-127.0.0.1:6390}
HTTP=${HTTP:-127.0.0.1:8390}

# refuse_busy VARIABLE ADDRESS OTHER_PORT: stops if somebody listens there already.
refuse_busy() {
    local host=${2%:*} port=${2##*:}
    host=${host#[} host=${host%]}
    case $2 in unix:* | /*) return ;; esac
    if (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; then
        fail "$2 is busy: something listens there already (another \`make run\`?).
Choose another address: make run $1=$host:$3"
    fi
}

need_build_tools
[ -x build/release/weir ] || say "Building weir (the first time takes a minute)..."
build release
refuse_busy RESP "$RESP" 7000
refuse_busy HTTP "$HTTP" 7001

cat <<TEXT

weir serves from memory until you press Ctrl-C:

  RESP   $RESP   any Redis client
  HTTP   http://$HTTP   POST /v1/take, GET /v1/check, /metrics, /healthz

Forgotten at exit: every bucket. All of them start empty the next time.
Paste this into another terminal; the eleventh time within a second is refused:

  build/release/weir take alice 10/s --server $RESP

TEXT
exec build/release/weir serve --resp "$RESP" --http "$HTTP"
