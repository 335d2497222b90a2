# shellcheck shell=bash
# fuse3: its own tests, which mount file systems. Part of transform-programs.sh.

fuse3_sources() { archives_of fuse3 && type -P meson ninja >/dev/null; }

# fuse3_tree NAME [OPTION...]: fuse3 in $work/fuse3-NAME, converted with these options if there are any, with its examples and tests.
fuse3_tree() {
    local name=$1 tree=$work/fuse3-$1
    shift
    [[ ! -f $tree/built ]] || return 0
    rm -rf "$tree"
    unpacked fuse3 "$tree" whole || return 1
    (
        cd "$tree"
        # Programs have one copy of the delegates' library, in themselves.
        CC=$work/cc CXX=$work/cxx timeout 300 meson setup build -Ddefault_library=static -Dc_args="-I$top/crates/capi/include" \
            -Dudevrulesdir="$tree/udev" -Duseroot=false >configure.log 2>&1
        if (($#)); then
            /usr/bin/time -f "$(basename "$tree"): converted in %e s" "$lockwork" transform -p build --in-place "$@" >converted.log
            tail -1 converted.log
        fi
        LINK_WITH="${library_of[$name]-$library -lm -ldl -pthread}" timeout 600 ninja -C build >build.log 2>&1 ||
            { tail -20 build.log; exit 1; }
        touch built
    )
}

# Its own tests, all of which mount something: as it was, they find as much wrong as this machine's folders and kernel do.
fuse3_tests() {
    local tree=$1 delegate=$2 status=0
    cd "$tree/build"
    LOCKWORK_DELEGATE=$delegate timeout "${TEST_SECONDS:-1200}" \
        python3 -m pytest -p no:cacheprovider -q -rA --maxfail=1000 test >"../tests-$delegate.log" 2>&1 || status=$?
    # 1: some tests have failed.
    ((status <= 1)) || { echo "  FAILED: pytest ends with $status: $(tail -1 "../tests-$delegate.log")"; failures=$((failures + 1)); }
    echo "$(basename "$tree") $delegate: $(tail -1 "../tests-$delegate.log")"
    sed -nE 's/^(PASSED|FAILED|ERROR|SKIPPED) ([^ ]*).*/\1 \2/p' "../tests-$delegate.log" | sort >"../outcome-$delegate"
    cd "$top"
}

# `printcap` fails in any case, and takes no mutex. A program that its delegate ends leaves its file system mounted.
fuse3_started() {
    mkdir -p mounted
    uses_delegates build/example/hello -f mounted
    umount -l mounted 2>/dev/null || true
}

fuse3() {
    fuse3_sources || skipped fuse3 "its source package cannot be fetched, or there is no meson and no ninja"
    [[ -w /dev/fuse && $EUID == 0 ]] || skipped fuse3 "its tests mount file systems, for which there are no privileges"
    python3 -c 'import pytest' 2>/dev/null || skipped fuse3 "its tests need pytest"
    # shellcheck disable=SC2086
    suites fuse3 $delegates
}
