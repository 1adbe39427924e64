#!/usr/bin/env bash
# Builds weir and serves on loopback, from memory. RESP and HTTP name the addresses. What it serves
# and what to try says the server itself, once it does.
. "$(dirname "$0")/lib.sh"
RESP=${RESP:-127.0.0.1:6390}
HTTP=${HTTP:-127.0.0.1:8390}

# answers HOST PORT: true if somebody listens there.
answers() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# advise VARIABLE ADDRESS: prints the `make run` that has ADDRESS for VARIABLE, the other as it is.
advise() {
    local resp=$RESP http=$HTTP line="make run"
    if [ "$1" = RESP ]; then resp=$2; else http=$2; fi
    [ "$resp" = 127.0.0.1:6390 ] || line+=" RESP=$resp"
    [ "$http" = 127.0.0.1:8390 ] || line+=" HTTP=$http"
    printf '%s' "$line"
}

# check VARIABLE ADDRESS PORT: stops if ADDRESS is none, or if somebody listens there already; then
# it names the first free port from PORT on.
check() {
    local host=${2%:*} port=${2##*:} free=$3
    local shape='^(\[[0-9a-fA-F:.]+\]|[^]:/[]*):([0-9]{1,5})$'
    case $2 in off | unix:?*) return ;; esac
    if [[ $2 =~ ^[0-9]+$ ]]; then
        fail "$1=$2 is a port without a host. Try: $(advise "$1" "127.0.0.1:$2")"
    fi
    if ! [[ $2 =~ $shape ]] || ((10#$port > 65535)); then
        fail "$1=$2 is no address: HOST:PORT, [IPv6]:PORT, unix:PATH or off.
Try: $(advise "$1" "127.0.0.1:$free")"
    fi
    host=${host#[} host=${host%]} host=${host:-127.0.0.1}
    [ "$((10#$port))" != 0 ] && answers "$host" "$port" || return 0
    while answers "$host" "$free"; do free=$((free + 1)); done
    fail "$2 is busy: something listens there already (another \`make run\`?).
Choose another address: $(advise "$1" "${2%:*}:$free")"
}

check RESP "$RESP" 7000
check HTTP "$HTTP" 7001
need_build_tools
[ -x build/release/weir ] || say "Building weir (the first time takes a minute)..."
build release
exec build/release/weir serve --resp "$RESP" --http "$HTTP"
