# shellcheck shell=bash
# memcached: its own tests, SET, and the way from a profile. Part of transform-programs.sh.

memcached_sources() { source_of memcached && headers_of libevent-dev; }

# memcached_tree NAME CFLAGS LIBS [OPTION...]: the tree NAME, converted with these options if there are any, built.
memcached_tree() {
    local name=$1 cflags=$2 libs=$3 tree=$work/memcached-$1
    shift 3
    [[ -x $tree/memcached ]] && return 0
    [[ -d $tree ]] || cp -a "$work/memcached" "$tree"
    (
        cd "$tree"
        ./configure CC="$work/cc" CFLAGS="-O2 -g -I$work/root/usr/include $cflags" \
            LDFLAGS="-L$work/root/usr/lib/$(gcc -print-multiarch)" LIBS="$libs" >configure.log 2>&1
        if (($#)); then
            # What is compiled is known by a build in which nothing is compiled: with assertions first, because a file counts once, and what
            # only assertions name would not be seen without.
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -k memcached-debug >first.log 2>&1 || true
            NOTE_ONLY=1 COMPILE_LINES=$tree/lines quiet_make -k memcached testapp >>first.log 2>&1 || true
            rm -f ./*.o memcached memcached-debug testapp
            transformed "$tree" "$@"
        fi
        # Its own flags say -Wall -Werror -pedantic: there is no new warning.
        quiet_make memcached memcached-debug testapp sizes timedrun >build.log 2>&1 || { tail -20 build.log; exit 1; }
    )
}

memcached_tests() {
    local tree=$1 delegate=$2
    local tests=${TESTS:-$(cd "$tree" && echo t/*.t)}
    (
        cd "$tree"
        # Styles of sources and names of packages are no business of these tests.
        if [[ $tests != none ]]; then
            LOCKWORK_DELEGATE=$delegate timeout 1500 prove -Q -j "${JOBS:-1}" ${tests//t\/whitespace.t/} >"tests-$delegate.log" 2>&1 || true
            echo "$(basename "$tree") $delegate: $(grep -E '^(Files=|Result:)' "tests-$delegate.log" | tr '\n' ' ')" \
                "failed: $(grep -oE '^t/[^ ]+\.t' "tests-$delegate.log" | sort -u | tr '\n' ' ')"
        fi
        LOCKWORK_DELEGATE=$delegate timeout 300 ./testapp >"testapp-$delegate.log" 2>&1 &&
            echo "  testapp: $(grep -c '^ok' "testapp-$delegate.log") passed" || echo "  testapp: failed"
    )
}

memcached_started() { uses_delegates ./memcached -u root -l 127.0.0.1 -p $((21000 + RANDOM % 9000)) -U 0; }

# sets CMD...: SET by connections that each wait for their answers, in requests a second. CMD starts the server with options to come.
sets() {
    local port=$((21000 + RANDOM % 9000)) pid=$work/pid.$$ log=$work/server.$$ server up=
    rm -f "$pid"
    "$@" -u root -l 127.0.0.1 -p "$port" -U 0 -t "${THREADS:-4}" -m 256 -P "$pid" >"$log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && [[ -s $pid ]] && up=1 && break
        sleep 0.05
    done
    [[ -n $up ]] || { cat "$log" >&2; kill "$server" 2>/dev/null; return 1; }
    timeout 120 python3 - "$port" "${SECONDS_EACH:-5}" "${CLIENTS:-4}" <<'PYTHON' || true
import os, socket, sys, time
port, seconds, clients = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
pipes = []
for client in range(clients):
    read, write = os.pipe()
    if os.fork() == 0:
        connection = socket.create_connection(("127.0.0.1", port))
        batch = b"".join(b"set k%d-%d 0 0 32\r\n%s\r\n" % (client, key, b"v" * 32) for key in range(50))
        done, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(batch)
            left = 50 * len(b"STORED\r\n")
            while left:
                answer = connection.recv(left)
                if not answer:
                    sys.exit("the server has gone")
                left -= len(answer)
            done += 50
        os.write(write, b"%d" % done)
        os._exit(0)
    os.close(write)
    pipes.append(read)
total = sum(int(os.read(pipe, 32) or 0) for pipe in pipes)
print(f"{total / seconds:.0f} SET/s")
PYTHON
    kill "$(cat "$pid")" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    # What was said by the server, or by what it was started with, such as a profiler.
    cat "$log"
    rm -f "$pid" "$log"
}

memcached_sets() {
    local tree=$1 delegate=$2
    LOCKWORK_DELEGATE=$delegate sets "$tree/memcached" | sed "s|^|$(basename "$tree") $delegate: |"
}

memcached() {
    memcached_sources || skipped memcached "its source package, or libevent-dev, cannot be fetched"
    local ours="-I$top/crates/capi/include" name option trees delegate round tree
    memcached_tree plain "" ""
    memcached_tree any "$ours" "$library -lm -ldl -pthread" --
    memcached_tree hold "$ours" "$library -lm -ldl -pthread" --hold
    memcached_tests "$work/memcached-plain" none
    for delegate in $delegates; do
        way_of "$delegate"
        trees="any hold"
        [[ $name == hold ]] || trees=any
        for tree in $trees; do memcached_tests "$work/memcached-$tree" "$delegate"; done
    done
    for round in $(seq "${RUNS:-3}"); do
        memcached_sets "$work/memcached-plain" none
        for delegate in $delegates; do
            way_of "$delegate"
            memcached_sets "$work/memcached-any" "$delegate"
            [[ $name != hold ]] || memcached_sets "$work/memcached-hold" "$delegate"
        done
    done
}

# RCL's way, by one command: a profile, what it says is worth it, a build, memcached's tests, a comparison.
from() {
    memcached_sources || skipped memcached "its source package, or libevent-dev, cannot be fetched"
    local tree=$work/memcached-from
    export THREADS=${THREADS:-16} CLIENTS=${CLIENTS:-16}
    if [[ ! -s $tree/compile_commands.json ]]; then
        rm -rf "$tree"
        cp -a "$work/memcached" "$tree"
        cd "$tree"
        ./configure CC="$work/cc" CFLAGS="-O2 -g -fno-omit-frame-pointer -I$work/root/usr/include -I$top/crates/capi/include" \
            LDFLAGS="-L$work/root/usr/lib/$(gcc -print-multiarch)" LIBS="$library -lm -ldl -pthread" >configure.log 2>&1
        COMPILE_LINES=$tree/lines quiet_make memcached-debug >first.log 2>&1
        COMPILE_LINES=$tree/lines quiet_make memcached testapp sizes timedrun >>first.log 2>&1
        database lines compile_commands.json
        cd "$top"
    fi
    # Results name no place of this machine, as long as the program lies below this directory. Some of its sections stay locks, so that
    # the delegates have to be ones that can be held.
    tree=${tree#"$top/"}
    export WORK=$work KEEP=1 TESTS=${TESTS:-t/cas.t t/evictions.t t/getset.t t/lru.t t/lru-crawler.t t/slabs_reassign.t \
t/slabs-reassign2.t t/stats.t}
    "$lockwork" delegate -p "$tree" --hold --share "${SHARE:-1}" --waited "${WAITED:-0.5}" ${EXCEPT:+--except "$EXCEPT"} \
        --program "$tree/memcached" --build "make -s -C '$tree' memcached memcached-debug testapp" \
        --test 'scripts/transform-programs.sh passes {program}' \
        --delegates "$(tr ' ' , <<<"${DELEGATES:-locked(futex) locked(mcs-stp) rcl sanl}")" --locks "${LOCKS:-pthread}" \
        --metric '+SET=(\d+) SET/s' --runs "${RUNS:-6}" --commit "$(git describe --always --dirty)" --out "${OUT:-$work/delegate}" \
        -- scripts/transform-programs.sh sets '{program}'
}

# passes PROGRAM: memcached's tests of what `from` has converted, under LOCKWORK_DELEGATE. They run the program beside it that has
# assertions.
passes() {
    local tree
    tree=$(dirname "$1")
    memcached_tests "$tree" "$LOCKWORK_DELEGATE" | tee "$tree/passes.log"
    [[ $TESTS == none ]] || grep -q 'Result: PASS' "$tree/passes.log" || return 1
    grep -q 'testapp: .* passed' "$tree/passes.log"
}

# The converted memcached under each of the delegates.
tests() {
    memcached_sources || skipped memcached "its source package, or libevent-dev, cannot be fetched"
    local delegate name option
    for delegate in $delegates; do
        if [[ $delegate == none ]]; then
            memcached_tree plain "" ""
            memcached_tests "$work/memcached-plain" none
            continue
        fi
        way_of "$delegate"
        memcached_tree "$name" "-I$top/crates/capi/include" "$library -lm -ldl -pthread" "$option"
        memcached_tests "$work/memcached-$name" "$delegate"
    done
}
