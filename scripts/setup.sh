#!/usr/bin/env bash
# Installs what `make demo`, `make test`, `make miri`, `make bench` or `make deb` needs on Debian, and nothing that is already there.
#
#   scripts/setup.sh demo|test|miri|bench|deb
#
# Exit status: 0 all there; 2 something is missing that this script may not or cannot install
# (one line says which command mends it).
set -euo pipefail

readonly AARCH64=aarch64-unknown-linux-gnu

# `package` or `package:command`; a command found on PATH counts, wherever it came from.
demo_packages=(rocksdb-tools:db_bench kyotocabinet-utils:kccachetest)
bench_packages=("${demo_packages[@]}" x265:x265 g++:g++ libgmock-dev libclang1-19 libclang-common-19-dev)
deb_packages=(dpkg-dev:dpkg-shlibdeps binutils:strip lintian:lintian)
test_packages=(
    gcc:gcc g++:g++ make:make cmake:cmake pkg-config:pkg-config git:git xz-utils:xz zstd:zstd
    rocksdb-tools:db_bench kyotocabinet-utils:kccachetest x265:x265
    memcached:memcached libmemcached-tools:memcaslap
    libjemalloc2 libtcmalloc-minimal4
    nodejs:node python3:python3 chromium:chromium
)
# Where these cannot be had, their tests are skipped, and counted as such.
optional_test_packages=(
    guile-3.0:guile sbcl:sbcl erlang-base:escript libclang1-19 libclang-common-19-dev slurm-wlm:slurmctld munge:munged
    golang-go:go prometheus:promtool python3-prometheus-client
)
aarch64_packages=(
    qemu-user:qemu-aarch64 gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc libc6-dev-arm64-cross
)

die() {
    echo "setup: $*" >&2
    exit 2
}

is_installed() {
    local package=${1%%:*} command=
    [[ $1 == *:* ]] && command=${1#*:}
    if [[ -n $command ]] && PATH=$PATH:/usr/sbin type -P "$command" >/dev/null; then
        return 0
    fi
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]]
}

# Sets `missing` to the packages of the arguments that are not there.
find_missing() {
    missing=()
    local entry
    for entry in "$@"; do
        is_installed "$entry" || missing+=("${entry%%:*}")
    done
}

# Sets `as_root` to the prefix that runs a command as root; fails when there is none.
find_root() {
    # At this run level no package starts a service: `promtool` comes with one.
    as_root=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1)
    if [[ $(id -u) -ne 0 ]]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n "${as_root[@]}")
    fi
}

# Installs the packages in `missing`; prints why and returns 1 when that is impossible.
install_missing() {
    local mend="apt-get install --no-install-recommends ${missing[*]}"
    if ! type -P apt-get >/dev/null; then
        echo "setup: no apt-get here; install what Debian calls: ${missing[*]}" >&2
        return 1
    fi
    if ! find_root; then
        echo "setup: missing packages; as root run: $mend" >&2
        return 1
    fi
    echo "setup: installing ${missing[*]}"
    # A stale package list may still do, so only the installation decides.
    "${as_root[@]}" apt-get update -qq || echo "setup: apt-get update failed, trying the lists at hand" >&2
    if ! "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; then
        echo "setup: apt failed; as root run: apt-get update && $mend" >&2
        return 1
    fi
}

setup_demo() {
    find_missing "${demo_packages[@]}"
    [[ ${#missing[@]} -eq 0 ]] && return
    install_missing || echo "setup: going on without ${missing[*]}: the demo leaves out what it does not find, and shows the built-in AVL-tree workload for RocksDB"
}

# Where the target cannot be had, the other tests run all the same.
setup_rust_target() {
    type -P rustup >/dev/null || die "rustup not found; install Rust by rustup, the tests need its target $AARCH64"
    rustup target list --installed | grep -qx "$AARCH64" && return
    rustup --quiet target add "$AARCH64" ||
        echo "setup: going on without the aarch64 tests; to have them run: rustup target add $AARCH64" >&2
}

setup_test() {
    find_missing "${test_packages[@]}" "${aarch64_packages[@]}"
    [[ ${#missing[@]} -eq 0 ]] || install_missing || exit 2
    find_missing "${optional_test_packages[@]}"
    [[ ${#missing[@]} -eq 0 ]] || install_missing || echo "setup: going on without ${missing[*]}: their tests are skipped" >&2
    setup_rust_target
}

setup_bench() {
    find_missing "${bench_packages[@]}"
    [[ ${#missing[@]} -eq 0 ]] || install_missing || exit 2
    "$(dirname "$0")/leveldb.sh" || echo "setup: going on without LevelDB's benchmark" >&2
}

setup_deb() {
    find_missing "${deb_packages[@]}"
    [[ ${#missing[@]} -eq 0 ]] || install_missing || exit 2
}

setup_miri() {
    cargo +nightly miri --version >/dev/null 2>&1 && return
    type -P rustup >/dev/null || die "rustup not found; install Rust by rustup, Miri comes with its nightly toolchain"
    rustup --quiet toolchain install nightly --profile minimal --component miri,rust-src ||
        die "no nightly toolchain with Miri is to be had; try another day, or: rustup toolchain install nightly-DATE"
}

case "${1-}" in
    demo) setup_demo ;;
    test) setup_test ;;
    miri) setup_miri ;;
    bench) setup_bench ;;
    deb) setup_deb ;;
    *) die "usage: scripts/setup.sh demo|test|miri|bench|deb" ;;
esac
