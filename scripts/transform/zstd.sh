# shellcheck shell=bash
# zstd: its tests of the pool of threads, of streams and of its command. Part of transform-programs.sh.

zstd_sources() { archives_of libzstd; }

# zstd_tree NAME [OPTION...]: zstd in $work/zstd-NAME, converted with these options if there are any, with its test programs.
zstd_tree() {
    local name=$1 tree=$work/zstd-$1
    shift
    [[ ! -x $tree/tests/zstreamtest ]] || return 0
    rm -rf "$tree"
    unpacked libzstd "$tree" whole || return 1
    (
        cd "$tree"
        if (($#)); then
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -C lib CC="$work/cc" lib-mt >first.log 2>&1 || true
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -C programs CC="$work/cc" HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 zstd \
                >>first.log 2>&1 || true
            timeout 300 make clean >>first.log 2>&1 || true
            find . \( -name '*.o' -o -name obj \) -prune -exec rm -rf {} +
            transformed "$tree" "$@"
        fi
        # Its debugging builds have mutexes of another type, each in memory of its own.
        export LINK_WITH="${library_of[$name]-$library -lm -ldl -pthread}"
        { quiet_make -j2 -C programs CC="$work/cc" MOREFLAGS="-I$top/crates/capi/include" HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 zstd &&
            quiet_make -j2 -C tests CC="$work/cc" DEBUGLEVEL=0 MOREFLAGS="-I$top/crates/capi/include" poolTests zstreamtest fuzzer \
                datagen; } >build.log 2>&1 || { tail -20 build.log; exit 1; }
    )
}

zstd_tests() {
    local tree=$1 delegate=$2 level found
    cd "$tree/tests"
    echo "$(basename "$tree") $delegate:"
    passed "pool of threads" "$delegate" "pool-$delegate.log" ./poolTests
    passed "streams by several threads" "$delegate" "stream-$delegate.log" ./zstreamtest --newapi -t1 -i"${ROUNDS:-1500}" -s4321
    passed "fuzzer" "$delegate" "fuzzer-$delegate.log" ./fuzzer -i"${ROUNDS:-1500}" -s4321
    rm -f "sums-$delegate.new"
    # What two threads compress is the same whatever their order.
    for level in 1 5 19; do
        found=$({ ./datagen -g20M -s7 | LOCKWORK_DELEGATE=$delegate timeout 300 ../programs/zstd -"$level" -T4 -B512K --long=20 -c |
            tee "compressed-$delegate" | md5sum; } 2>&1) || true
        LOCKWORK_DELEGATE=$delegate timeout 300 ../programs/zstd -dc <"compressed-$delegate" | cmp -s - <(./datagen -g20M -s7) ||
            found="not what it was"
        echo "  level $level: $found"
        rm -f "compressed-$delegate"
        echo "$level $found" >>"sums-$delegate.new"
    done
    mv "sums-$delegate.new" "$tree/outcome-$delegate"
    cd "$top"
}

zstd_started() { uses_delegates tests/poolTests; }

zstd() {
    zstd_sources || skipped libzstd "its source package cannot be fetched"
    # shellcheck disable=SC2086
    suites zstd $delegates
}
