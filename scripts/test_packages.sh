# shellcheck shell=bash
# What the tests need beside the build: from Debian, and from the lock files. Sourced by test.sh.
# Everything of a language goes under build/, so `make clean` forgets it and the source tree stays
# as it was. Each step leaves a stamp with the checksum of its lock file: the second time nothing
# is fetched, and the tests pass offline.

# Node and go are taken from PATH where they are recent enough, else from Debian.
NODE_AT_LEAST=18.19 GO_AT_LEAST=1.19
PYTHON=/usr/bin/python3 # Debian's own, whatever comes first in PATH

has_node() {
    has node && has npm && version_at_least "$NODE_AT_LEAST" "$(node -p process.versions.node)"
}
has_postgres() { has postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; } # not in PATH on Debian
has_pgbouncer() { has pgbouncer || [ -x /usr/sbin/pgbouncer ]; }
has_go() {
    has go && version_at_least "$GO_AT_LEAST" "$(go env GOVERSION | sed 's/^go//')"
}

missing_for_tests() {
    missing_for_build
    has g++ || printf 'g++ '
    has clang || printf 'clang '
    has clang-format || printf 'clang-format '
    has shellcheck || printf 'shellcheck '
    has pkg-config && pkg-config --exists cmocka || printf 'libcmocka-dev '
    has redis-server || printf 'redis-server '
    has redis-cli || printf 'redis-tools '
    has_postgres || printf 'postgresql '
    has_pgbouncer || printf 'pgbouncer '
    has nginx || printf 'nginx '
    has haproxy || printf 'haproxy '
    has caddy || printf 'caddy '
    has promtool || printf 'prometheus '
    has mandoc || printf 'mandoc '
    has curl || printf 'curl '
    has_node || printf 'nodejs npm '
    has_go || printf 'golang-go '
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || printf 'python3-venv '
    [ -e /etc/ssl/certs/ca-certificates.crt ] || printf 'ca-certificates '
}

# The preset aarch64 tests another processor on an x86-64.
is_x86_64() { [ "$(uname -m)" = x86_64 ]; }
missing_for_aarch64() {
    has aarch64-linux-gnu-gcc || printf 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross '
    has qemu-aarch64 || printf 'qemu-user '
}

# download_mb PACKAGE...: what apt would fetch, in MB; empty where apt has no lists yet.
download_mb() {
    apt-get --print-uris -qq -y --no-install-recommends install "$@" 2>/dev/null \
        | awk '{ bytes += $3 } END { if (NR) printf "%d", bytes / 1000000 + 1 }'
}

# Debian starts a service when its package is installed. A policy-rc.d that answers 101 forbids it;
# one that was there before comes back. Afterwards the new services are taken out of the boot too.
POLICY=/usr/sbin/policy-rc.d
forbid_daemons() {
    # shellcheck disable=SC2016 # $0 is for the inner shell
    as_root sh -c '
        if [ -e "$0" ] && ! grep -q "weir: make test" "$0"; then mv "$0" "$0.before-weir"; fi
        printf "#!/bin/sh\n# weir: make test\nexit 101\n" >"$0" && chmod 755 "$0"' "$POLICY" \
        || true # install_packages says what to do without root
    trap restore_daemons EXIT
}
restore_daemons() {
    # shellcheck disable=SC2016
    as_root sh -c '
        if grep -qs "weir: make test" "$0"; then rm -f "$0"; fi
        if [ -e "$0.before-weir" ]; then mv "$0.before-weir" "$0"; fi' "$POLICY" || true
    trap - EXIT
}

install_for_tests() {
    local package
    forbid_daemons
    install_packages "$@"
    for package in "$@"; do
        case $package in
            redis-server | postgresql | pgbouncer | nginx | haproxy | caddy | prometheus)
                if has systemctl; then as_root systemctl --quiet disable "$package" || true; fi ;;
        esac
    done
    restore_daemons
}

# unless_stamped NAME COMMAND FILE...: runs it unless it has succeeded with these very files.
unless_stamped() {
    local stamp
    stamp=build/stamps/$1-$(cat "${@:3}" | sha256sum | cut -c 1-16)
    [ -e "$stamp" ] && return
    mkdir -p build/stamps
    "$2" >"build/stamps/$1.log" 2>&1 || { tail -n 20 "build/stamps/$1.log" >&2; return 1; }
    touch "$stamp"
}

fetch_python() {
    rm -rf build/venv
    "$PYTHON" -m venv build/venv
    build/venv/bin/pip install --require-hashes --no-deps --disable-pip-version-check \
        -r tests/requirements.lock
}
fetch_node() {
    mkdir -p build/node
    cp tests/system/clients/node/package.json tests/system/clients/node/package-lock.json build/node
    npm ci --prefix build/node --ignore-scripts --no-audit --no-fund --cache "$PWD/build/node/cache"
}
fetch_go() {
    (cd tests/system/clients/go && GOTOOLCHAIN=local GOFLAGS='-mod=readonly -modcacherw' \
        GOPATH=$OLDPWD/build/go GOCACHE=$OLDPWD/build/go/cache \
        go build -o "$OLDPWD/build/go/client" .)
}

# Debian has no cross packages of these libraries. Their packages for arm64 are fetched by an apt with folders of
# its own, which checks their signatures, and unpacked under build/: the system learns of no other architecture.
fetch_aarch64() {
    local apt=$PWD/build/aarch64-apt package
    local options=(-q -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" -o Dir::State::status=/dev/null
        -o Dir::Cache="$apt/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64
        -o APT::Sandbox::User=)
    rm -rf "$apt" build/aarch64-sysroot
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" build/aarch64-sysroot
    apt-get "${options[@]}" update
    (cd "$apt" && apt-get "${options[@]}" download libcmocka-dev libcmocka0 libyaml-dev libjansson-dev)
    for package in "$apt"/*.deb; do dpkg-deb -x "$package" build/aarch64-sysroot; done
    rm -rf "$apt"
}

# need_aarch64: what a cross build needs, but for the build itself.
need_aarch64() {
    local missing
    is_x86_64 || fail "the preset aarch64 is a cross build on an x86-64; here dev builds for this processor"
    missing=$(missing_for_aarch64)
    # shellcheck disable=SC2086 # a list of words
    [ -z "$missing" ] || install_packages $missing
    unless_stamped aarch64 fetch_aarch64 scripts/test_packages.sh \
        || fail "could not fetch libraries for arm64 from Debian (is the network there?)"
}

fetch_languages() {
    local clients=tests/system/clients
    unless_stamped python fetch_python tests/requirements.lock \
        && unless_stamped node fetch_node $clients/node/package-lock.json \
        && unless_stamped go fetch_go $clients/go/go.mod $clients/go/go.sum $clients/go/main.go
}
