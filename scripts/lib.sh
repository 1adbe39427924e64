# shellcheck shell=bash
# What the other scripts share: messages, and installing packages on Debian 12. Sourced.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:/usr/sbin:/sbin # nginx lives there, and not everybody has it in PATH

say() { printf '%s\n' "$*"; }
fail() { printf 'weir: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# system_name: "Debian GNU/Linux 12 (bookworm)", or the kernel's name where nobody says.
system_name() {
    # shellcheck disable=SC1091
    (. /etc/os-release 2>/dev/null && printf '%s' "${PRETTY_NAME:-}") || uname -s
}

is_debian_12() {
    # shellcheck disable=SC1091
    (. /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ])
}

# version_at_least 3.25 3.25.1: true if the second is not older than the first.
version_at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# as_root COMMAND...: as root, or with sudo; false where neither is possible.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif has sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        sudo "$@"
    else
        return 1
    fi
}

# Tells apt never to ask. env, so that it survives sudo.
apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }

# install_packages PACKAGE...: from Debian, or stops and names the line to run.
install_packages() {
    local by_hand="apt-get update && apt-get install --no-install-recommends $*"
    is_debian_12 || fail "this is $(system_name), and only on Debian 12 packages are installed for you.
Missing (by their Debian names): $*"
    say "Installing from Debian: $*"
    mkdir -p build
    if ! apt_get update >build/apt.log 2>&1 \
        || ! apt_get install --no-install-recommends "$@" >>build/apt.log 2>&1; then
        [ -s build/apt.log ] && tail -n 3 build/apt.log >&2
        fail "could not install. As root, run this line, then try again:
$by_hand"
    fi
}

# missing_for_build: names the packages that the build still needs. Looks for the tools themselves,
# not for packages: so it is quick, and right on any system.
missing_for_build() {
    has gcc || printf 'gcc '
    has gcc && printf '#include <stdio.h>\n' | gcc -E - >/dev/null 2>&1 || printf 'libc6-dev '
    { has cmake && version_at_least 3.25 "$(cmake --version | awk 'NR == 1 { print $3 }')"; } \
        || printf 'cmake '
    has ninja || printf 'ninja-build '
    has pkg-config || printf 'pkg-config '
    { has pkg-config && pkg-config --exists jansson; } || printf 'libjansson-dev '
    { has pkg-config && pkg-config --exists yaml-0.1; } || printf 'libyaml-dev '
    { has pkg-config && pkg-config --exists libpq; } || printf 'libpq-dev '
}

# build PRESET: configures once, and where CI (a warning is an error) has changed; otherwise ninja
# sees by itself whether CMake has to run again.
build() {
    mkdir -p build
    (
        flock 9 # `make run` beside `make run`: one at a time
        if [ ! -f "build/$1/build.ninja" ] \
            || ! grep -qx "WEIR_WERROR:BOOL=${CI:-}" "build/$1/CMakeCache.txt"; then
            cmake --preset "$1" >"build/$1.configure.log" 2>&1 \
                || { cat "build/$1.configure.log" >&2; rm -f "build/$1/build.ninja"; exit 1; }
        fi
        ninja -C "build/$1" --quiet | sed "/^ninja: no work to do/d"
    ) 9>"build/$1.lock"
}

need_build_tools() {
    local missing
    mkdir -p build
    missing=$(missing_for_build)
    # shellcheck disable=SC2086 # a list of words
    [ -z "$missing" ] || install_packages $missing
}
