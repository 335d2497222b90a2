#!/usr/bin/env bash
# Builds LevelDB's benchmark, which Debian has the source of but no package: target/leveldb/db_bench.
#
#   scripts/leveldb.sh
#
# The source comes from where this machine's packages come from. Takes half a minute; does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly DIRECTORY=$PWD/target/leveldb

die() {
    echo "leveldb: $*" >&2
    exit 2
}

# Fetches the source package into the current directory; the machine's own lists of packages stay as they are.
fetch() {
    mkdir -p sources lists/partial
    local list
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
        [[ ! -f $list ]] || sed -E 's/^deb /deb-src /; s/^Types:.*/Types: deb-src/' "$list" >"sources/${list##*/}"
    done
    local -a apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$PWD/sources"
        -o "Dir::State::lists=$PWD/lists" -o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User=)
    # Some list may fail that is not needed.
    "${apt[@]}" update || true
    "${apt[@]}" source --download-only leveldb
}

# Compiles the source in the current directory, as its own build does without compression.
compile() {
    local -a sources flags=(-std=c++17 -O2 -DNDEBUG -DLEVELDB_PLATFORM_POSIX=1 -DHAVE_FDATASYNC=1 -DHAVE_O_CLOEXEC=1
        -I. -Iinclude)
    mapfile -t sources < <(
        printf '%s\n' {db,table,util}/*.cc helpers/memenv/memenv.cc benchmarks/db_bench.cc |
            grep -vE '_test\.cc|env_windows|leveldbutil'
    )
    printf '%s\n' "${sources[@]}" |
        xargs -P "$(nproc)" -I '{}' sh -c 'g++ "$@" -c {} -o "$(echo {} | tr / -).o"' compile "${flags[@]}" || return 1
    g++ ./*.o -pthread -o db_bench
}

[[ ! -x $DIRECTORY/db_bench ]] || exit 0
rm -rf "$DIRECTORY"
mkdir -p "$DIRECTORY/source"
cd "$DIRECTORY/source"
fetch || die "the source package leveldb is not to be had; look at the package sources in /etc/apt"
tar -xf leveldb_*.orig.tar.gz --strip-components=1
compile || die "it does not compile; are g++ and libgmock-dev there? scripts/setup.sh bench installs them"
mv db_bench ..
