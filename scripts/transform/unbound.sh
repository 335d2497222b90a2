# shellcheck shell=bash
# unbound: its unit tests and its replayed queries. Part of transform-programs.sh.

unbound_sources() { archives_of unbound && headers_of libexpat1-dev && headers_of libssl-dev; }

# unbound_tree NAME [OPTION...]: unbound in $work/unbound-NAME, converted with these options if there are any, with its test programs.
unbound_tree() {
    local name=$1 tree=$work/unbound-$1 root=$work/root/usr multiarch
    shift
    [[ ! -x $tree/testbound ]] || return 0
    rm -rf "$tree"
    unpacked unbound "$tree" whole || return 1
    multiarch=$(gcc -print-multiarch)
    (
        cd "$tree"
        CC=$work/cc CFLAGS="-g -O2 -Wall -Wextra" timeout 600 ./configure --disable-flto --with-libexpat="$root" --with-ssl="$root" \
            CPPFLAGS="-I$root/include/$multiarch -I$top/crates/capi/include" LDFLAGS="-L$root/lib/$multiarch" >configure.log 2>&1
        if (($#)); then
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -k all unittest testbound >first.log 2>&1 || true
            timeout 300 make clean >>first.log 2>&1
            transformed "$tree" "$@"
        fi
        LINK_WITH="${library_of[$name]-$library -lm -ldl -pthread}" quiet_make -j2 all unittest testbound >build.log 2>&1 ||
            { tail -20 build.log; exit 1; }
    )
}

# unbound's unit tests, and queries that it answers by what its test data say (TESTS: some of these files).
unbound_tests() {
    local tree=$1 delegate=$2 name passed=0 failed=
    local -a tests
    cd "$tree"
    echo "$(basename "$tree") $delegate:"
    passed "unit tests" "$delegate" "unittest-$delegate.log" ./unittest
    passed "testbound's own" "$delegate" "testbound-$delegate.log" ./testbound -s
    read -ra tests <<<"${TESTS:-$(echo testdata/*.rpl)}"
    for name in "${tests[@]}"; do
        if LOCKWORK_DELEGATE=$delegate timeout 60 ./testbound -p "$name" >"replay-$delegate.log" 2>&1; then
            passed=$((passed + 1))
        else
            failed+=" $(basename "$name" .rpl)"
        fi
    done
    echo "  replays: $passed passed, failed:${failed:- none}"
    echo "failed:$failed" >"outcome-$delegate"
    cd "$top"
}

unbound_started() { uses_delegates ./testbound -p testdata/autotrust_init.rpl; }

unbound() {
    unbound_sources || skipped unbound "its source package, libexpat1-dev or libssl-dev cannot be fetched"
    # shellcheck disable=SC2086
    suites unbound $delegates
}
