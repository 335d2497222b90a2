#!/usr/bin/env bash
# Installs what a release build made: the command with its manual pages and completions, the library that goes under
# programs, and the C and C++ library with its headers, pkg-config file and CMake package.
#
#   PREFIX=/usr/local LIBDIR=lib DESTDIR= scripts/install.sh [command|library]...     (default: both)
#
# LIBDIR, below PREFIX, is where linkers look, for distributions that have one for each architecture. DESTDIR is put before
# every path, for packages; nothing installed mentions it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PREFIX=${PREFIX:-/usr/local}
readonly LIBDIR=${LIBDIR:-lib}
readonly ROOT=${DESTDIR:-}$PREFIX
readonly BUILT=${CARGO_TARGET_DIR:-target}/release
# The number of the C library's interface: programs that were linked with one number run with no other.
readonly INTERFACE=0
VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
readonly VERSION

die() {
    echo "install: $*" >&2
    exit 2
}

# Installs a built file: mode, name, destination.
built() {
    [[ -e $BUILT/$2 ]] || die "$BUILT/$2 is missing; run: cargo build --release -p lockwork-cli -p lockwork-preload -p lockwork-capi"
    install -D -m "$1" "$BUILT/$2" "$ROOT/$3"
}

# Writes standard input to a file.
made() {
    install -D -m 644 /dev/stdin "$ROOT/$1"
}

install_command() {
    built 755 lockwork bin/lockwork
    built 644 liblockwork.so lib/lockwork/liblockwork.so
    mkdir -p "$ROOT/share/man/man1"
    "$BUILT/lockwork" man --out "$ROOT/share/man/man1" >/dev/null
    "$BUILT/lockwork" completions bash | made share/bash-completion/completions/lockwork
    "$BUILT/lockwork" completions zsh | made share/zsh/site-functions/_lockwork
    "$BUILT/lockwork" completions fish | made share/fish/vendor_completions.d/lockwork.fish
}

install_library() {
    # From LIBDIR back to PREFIX: one step for each part of the path.
    local up=${LIBDIR//[!\/]/}
    up=..${up//\//\/..}
    built 644 liblockwork_c.so "$LIBDIR/liblockwork_c.so.$INTERFACE"
    ln -sf "liblockwork_c.so.$INTERFACE" "$ROOT/$LIBDIR/liblockwork_c.so"
    built 644 liblockwork_c.a "$LIBDIR/liblockwork_c.a"
    install -D -m 644 -t "$ROOT/include" crates/capi/include/lockwork.h crates/capi/include/lockwork.hpp
    made "$LIBDIR/pkgconfig/lockwork.pc" <<END
prefix=$PREFIX
libdir=\${prefix}/$LIBDIR
includedir=\${prefix}/include

Name: lockwork
Description: Mutexes, reader-writer locks and delegates whose algorithm is named at run time
Version: $VERSION
Libs: -L\${libdir} -llockwork_c
Libs.private: -ldl -lm -pthread
Cflags: -I\${includedir}
END
    made "$LIBDIR/cmake/lockwork/lockwork-config.cmake" <<END
# Defines the targets lockwork::lockwork and lockwork::static, for C and C++.
get_filename_component(_lockwork_libdir "\${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_lockwork_include "\${_lockwork_libdir}/$up/include" ABSOLUTE)
if(NOT TARGET lockwork::lockwork)
    add_library(lockwork::lockwork SHARED IMPORTED)
    set_target_properties(lockwork::lockwork PROPERTIES
        IMPORTED_LOCATION "\${_lockwork_libdir}/liblockwork_c.so"
        INTERFACE_INCLUDE_DIRECTORIES "\${_lockwork_include}")
endif()
if(NOT TARGET lockwork::static)
    find_package(Threads REQUIRED)
    add_library(lockwork::static STATIC IMPORTED)
    set_target_properties(lockwork::static PROPERTIES
        IMPORTED_LOCATION "\${_lockwork_libdir}/liblockwork_c.a"
        INTERFACE_INCLUDE_DIRECTORIES "\${_lockwork_include}"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;\${CMAKE_DL_LIBS};m")
endif()
END
    made "$LIBDIR/cmake/lockwork/lockwork-config-version.cmake" <<END
set(PACKAGE_VERSION "$VERSION")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
    if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
        set(PACKAGE_VERSION_EXACT TRUE)
    endif()
endif()
END
}

[[ $# -gt 0 ]] || set -- command library
for part in "$@"; do
    case "$part" in
        command) install_command ;;
        library) install_library ;;
        *) die "usage: scripts/install.sh [command|library]..." ;;
    esac
done
echo "install: Lockwork $VERSION is in $ROOT"
