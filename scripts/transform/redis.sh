# shellcheck shell=bash
# redis: the tests of its own that use its locks. Part of transform-programs.sh.

# What frees memory and synchronises files behind its back, and what its modules' threads do: all of its locks.
redis_units=(unit/type/list unit/type/stream unit/expire unit/lazyfree unit/other unit/aofrw integration/aof integration/redis-benchmark)
redis_modules=(blockonbackground blockedclient blockonkeys eventloop timer test_lazyfree usercall)
# What its threads read and write for clients.
redis_threaded=(unit/type/string unit/type/hash unit/type/set unit/type/incr unit/protocol unit/networking unit/pubsub)

redis_sources() { archives_of redis && compgen -c tclsh8. >/dev/null; }

# redis_tree NAME [OPTION...]: redis in $work/redis-NAME, converted with these options if there are any, with the modules of its tests.
redis_tree() {
    local name=$1 tree=$work/redis-$1
    shift
    [[ ! -f $tree/tests/modules/usercall.so ]] || return 0
    rm -rf "$tree"
    unpacked redis "$tree" whole || return 1
    (
        cd "$tree"
        local -a made=(-C src "CC=$work/cc" MALLOC=libc REDIS_CFLAGS="-I$top/crates/capi/include" redis-server redis-benchmark redis-cli)
        if (($#)); then
            (cd src && sh mkreleasehdr.sh) >first.log 2>&1
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -k "${made[@]}" >>first.log 2>&1 || true
            quiet_make -C src distclean >>first.log 2>&1
            # Libraries that it brings are none of its files.
            grep -v "\"directory\": \"$tree/deps" lines >lines.own && mv lines.own lines
            transformed "$tree" "$@"
        fi
        { LINK_WITH="${library_of[$name]-$library -lm -ldl -pthread}" quiet_make -j2 "${made[@]}" &&
            quiet_make -C tests/modules; } >build.log 2>&1 || { tail -20 build.log; exit 1; }
        # Its tests look for these, which are the server by other names.
        for name in redis-check-aof redis-check-rdb redis-sentinel; do cp src/redis-server "src/$name"; done
    )
}

redis_started() { uses_delegates src/redis-server --port 0 --save ''; }

# redis_run NAME DELEGATE UNIT... [--OPTION...]: some of its tests; which of them failed is added to `failed`.
redis_run() {
    local name=$1 delegate=$2 log=$1-$2.log status=0
    local -a units=()
    shift 2
    while (($#)) && [[ $1 != --* ]]; do units+=(--single "$1"); shift; done
    LOCKWORK_DELEGATE=$delegate TERM=dumb timeout "${TEST_SECONDS:-1200}" ./runtest --clients "${REDIS_CLIENTS:-3}" \
        --baseport $((21000 + RANDOM % 9000)) --portcount 400 --timeout 120 "${units[@]}" "$@" >"$log" 2>&1 || status=$?
    echo "  $name: $(grep -c '^\[ok\]' "$log") passed, $(grep -cE '^\[(err|exception|TIMEOUT)\]' "$log") failed, status $status"
    grep -E '^\[(err|exception|TIMEOUT)\]' "$log" | cut -c1-120 || true
    # How long something took is no part of the outcome.
    failed+=$(echo "$name $status" && grep -E '^\[(err|exception|TIMEOUT)\]' "$log" | cut -d: -f2 | cut -c1-60 | sort || true)
}

redis_tests() {
    local tree=$1 delegate=$2 failed=
    cd "$tree"
    echo "$(basename "$tree") $delegate:"
    redis_run units "$delegate" "${redis_units[@]}"
    redis_run modules "$delegate" "${redis_modules[@]/#/unit/moduleapi/}"
    redis_run threaded "$delegate" "${redis_threaded[@]}" --config io-threads 4 --config io-threads-do-reads yes
    echo "$failed" >"outcome-$delegate"
    cd "$top"
}

redis() {
    redis_sources || skipped redis "its source package cannot be fetched, or there is no tclsh for its tests"
    # shellcheck disable=SC2086
    suites redis $delegates
}
