# shellcheck shell=bash
# Converted programs under ThreadSanitizer: what it says of them that it does not say of the originals. Part of transform-programs.sh.

# tsan_tree PROGRAM NAME [OPTION...]: the program in $work/PROGRAM-tsan-NAME, all of which is compiled with ThreadSanitizer. The library
# is not; it tells ThreadSanitizer what happens before what.
tsan_tree() {
    local program=$1 name=tsan-$2 ours= libraries=
    shift 2
    # shellcheck disable=SC2030
    export COMPILE_WITH="-fsanitize=thread -g"
    if [[ $program == memcached ]]; then
        # Its own flags make warnings errors; this one is that the sanitizer does not know of fences.
        COMPILE_WITH+=" -Wno-error=tsan"
        (($#)) && ours=-I$top/crates/capi/include libraries="$library -lm -ldl -pthread"
        memcached_tree "$name" "$ours" "$libraries" "$@"
    else
        "${program}_tree" "$name" "$@"
    fi
    unset COMPILE_WITH
}

# What each program does under ThreadSanitizer, in its folder. Tests that are too slow under it may fail: only what it reports counts.
memcached_tsan() {
    local file
    SECONDS_EACH=3 sets ./memcached || true
    # shellcheck disable=SC2046
    timeout -k 5 300 prove -Q -j 2 $(for file in cas evictions flush-all getset incrdecr lru lru-crawler lru-maintainer slabs_reassign \
        slabs-reassign2 stats watcher; do echo "t/$file.t"; done) || true
    timeout -k 5 120 ./testapp || true
}

# Races that are the original's by its text, and seldom seen in it.
memcached_known() {
    # `do_item_alloc` writes flags into an item that it has been given, with no lock; `slab_rebalance_move` reads those of any item of a
    # slab, with the slabs' lock. Answers read flags of items without the lock under which others write them.
    echo "data race: do_item_alloc, slab_rebalance_move"
    echo "data race: lru_pull_tail, process_bin_get_or_touch"
    echo "data race: do_item_update, process_get_command"
    # What a connection was goes to the next one of the same descriptor, which another thread may serve: what orders the two is the kernel.
    echo "data race: conn_new, out_string"
}

zstd_tsan() {
    (cd tests && timeout -k 5 300 ./poolTests && timeout -k 5 300 ./zstreamtest --newapi -t1 -i"${ROUNDS:-60}" -s4321) || return 1
    tests/datagen -g8M -s7 | timeout -k 5 120 programs/zstd -5 -T4 -B512K --long=20 -c | timeout -k 5 120 programs/zstd -dc | tail -c 64
}

redis_tsan() {
    timeout -k 5 400 ./runtest --clients 2 --baseport $((21000 + RANDOM % 9000)) --portcount 400 --timeout 300 --single unit/lazyfree \
        --single unit/type/incr --single unit/aofrw --config io-threads 4 --config io-threads-do-reads yes || true
}

# Its own tests, which wait for answers that take longer under ThreadSanitizer.
fuse3_tsan() {
    cd build
    timeout -k 5 900 python3 -m pytest -p no:cacheprovider -q --maxfail=1000 test || true
}

# The example `poll` changes which of its files are open with no lock.
fuse3_known() {
    echo "data race: fsel_open_mask written by fsel_release"
    echo "data race: fsel_release, fsel_release"
}

berkeley_tsan() {
    local kind
    for kind in stock-level order-status; do SECONDS_EACH=5 transactions ./tpcc "$kind" 6 || return 1; done
}

# Small problems with the locks that its programs have where they race on purpose otherwise.
splash_tsan() { splash_run "$PWD" with "$LOCKWORK_DELEGATE" || true; }

# fmm's `MergeLocalGrid` reads the grid that the first thread makes with a lock, and reads it without one: seen only if both come at once.
splash_known() { echo "data race: Grid written by InsertBoxInGrid"; }

# A server with four threads, which asks a second one, and is asked by several clients while it is looked at and reloaded.
unbound_tsan() {
    local folder=$PWD/tsan-served base=$((21000 + RANDOM % 9000)) first second
    rm -rf "$folder"
    mkdir "$folder"
    unbound_served "$folder/second" $((base + 1)) 'local-zone: "served." redirect' 'local-data: "served. 5 IN A 192.0.2.1"' \
        >"$folder/second.conf"
    {
        unbound_served "$folder/first" "$base" 'local-zone: "here." redirect' 'local-data: "here. 5 IN A 192.0.2.2"'
        printf 'forward-zone:\n name: "."\n forward-addr: 127.0.0.1@%d\n' $((base + 1))
    } >"$folder/first.conf"
    timeout -k 5 100 ./unbound -d -c "$folder/second.conf" &
    second=$!
    timeout -k 5 100 ./unbound -d -c "$folder/first.conf" &
    first=$!
    timeout -k 5 60 python3 - "$base" "${SECONDS_EACH:-5}" <<'PYTHON' &
import random, socket, struct, sys, threading, time
port, end = int(sys.argv[1]), time.monotonic() + 10 + float(sys.argv[2])
answers = [0] * 6
def asks(me):
    random.seed(me)
    while time.monotonic() < end:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.settimeout(0.5)
            for _ in range(50):
                name = random.choice(["here", "n%d.served" % random.randrange(400), "none%d" % random.randrange(50)])
                labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
                header = struct.pack(">6H", random.randrange(65536), 256, 1, 0, 0, 0)
                query = header + labels + b"\0" + struct.pack(">2H", random.choice([1, 28]), 1)
                try:
                    one.sendto(query, ("127.0.0.1", port))
                    one.recv(4096)
                    answers[me] += 1
                except OSError:
                    break
threads = [threading.Thread(target=asks, args=(me,)) for me in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"{sum(answers)} answers")
sys.exit(not sum(answers))
PYTHON
    local clients=$! command
    sleep 6
    for command in stats "local_data more.here. A 192.0.2.3" "flush_zone served." dump_cache reload stats; do
        timeout -k 5 20 ./unbound-control -c "$folder/first.conf" $command | tail -1 || true
        sleep 1
    done
    wait "$clients" || return 1
    kill "$first" "$second" || true
    wait "$first" "$second" || true
}

# unbound_served FOLDER PORT LINE...: a configuration.
unbound_served() {
    local folder=$1 port=$2
    shift 2
    mkdir -p "$folder"
    printf 'server:\n'
    printf ' %s\n' "interface: 127.0.0.1" "port: $port" 'username: ""' 'chroot: ""' "directory: \"$folder\"" 'pidfile: ""' \
        "num-threads: 4" "use-syslog: no" "do-not-query-localhost: no" "do-daemonize: no" 'module-config: "iterator"' "$@"
    printf 'remote-control:\n control-enable: yes\n control-interface: "%s/control"\n control-use-cert: no\n' "$folder"
}

# reported FOLDER: what ThreadSanitizer reports in a folder, without lines and addresses: of a race, between which two functions it is, of
# the rest, in which one. Of a race for a global variable that some read: who writes it; any function that reads it races. A closure counts as
# the function that it was part of.
reported() {
    cat "$1"/report.* | awk '
        function of(name) {
            sub(/\.(part|constprop|isra|cold|lto_priv).*/, "", name)
            if (name ~ /^lockwork_.*_[0-9]+_run$/) { sub(/^lockwork_/, "", name); sub(/_[0-9]+_run$/, "", name) }
            return name
        }
        function ended() {
            if (sought) names[++count] = "?"
            sought = 0
        }
        /^WARNING: ThreadSanitizer: / {
            kind = $0
            gsub(/^WARNING: ThreadSanitizer: | \(pid=.*/, "", kind)
            count = sought = writers = 0
            global = ""
        }
        /^  (Previous )?([Aa]tomic )?([Rr]ead|[Ww]rite) of size / { ended(); sought = 1; writes = /[Ww]rite/; next }
        /^  Location is global / { split($0, quoted, "\047"); global = quoted[2] }
        # What the sanitizer stands in for, such as memcpy, is called by the function that counts.
        sought && /^    #[0-9]+ / && $0 !~ /libsanitizer/ {
            names[++count] = of($2)
            if (writes) writers++
            if (writes) writer = names[count]
            sought = 0
        }
        /^$/ { ended() }
        /^SUMMARY: ThreadSanitizer: / {
            ended()
            if (kind ~ /data race/ && global != "" && writers == 1) print kind ": " global " written by " writer
            else if (kind ~ /data race/ && count >= 2) {
                if (names[1] > names[2]) { swapped = names[1]; names[1] = names[2]; names[2] = swapped }
                print kind ": " names[1] ", " names[2]
            } else print kind ": " of($NF)
        }' | sort -u
}

# tsan_run PROGRAM NAME DELEGATE ROUND: the program is run, and what is reported goes to reported-DELEGATE-ROUND.
tsan_run() {
    local program=$1 delegate=$3 tree=$work/$1-tsan-$2 folder
    folder=$tree/tsan-$delegate-$4
    rm -rf "$folder"
    mkdir "$folder"
    (
        cd "$tree"
        export LOCKWORK_DELEGATE=$delegate
        # All pairs of functions that race for a variable, not one of them by chance.
        export TSAN_OPTIONS="log_path=$folder/report halt_on_error=0 exitcode=0 die_after_fork=0 history_size=7 verbosity=1"
        TSAN_OPTIONS+=" suppress_equal_addresses=0"
        "${program}_tsan"
    ) >"$folder/said" 2>&1 && grep -q 'Running under ThreadSanitizer' "$folder"/report.* || {
        echo "FAILED: $program-$2 under $delegate: $(tail -1 "$folder/said")"
        return 1
    }
    reported "$folder" >"$tree/reported-$delegate-$4"
}

# Programs as they were, ROUNDS_BEFORE times, and converted under each delegate: what is reported of the converted one only is a
# failure. Which races are reported depends on who comes when, so that what is new is looked for in more runs of the original.
tsan() {
    local program name option delegate round more new failures=0
    local -A library_of=([tsan-plain]="")
    for program; do
        "${program}_sources" || { echo "SKIPPED $program: its sources, or what it needs, cannot be had"; continue; }
        tsan_tree "$program" plain
        known() {
            {
                cat "$work/$program-tsan-plain"/reported-none-*
                if declare -F "${program}_known" >/dev/null; then "${program}_known"; fi
            } | sort -u
        }
        for ((round = 1; round <= ${ROUNDS_BEFORE:-3}; round++)); do
            [[ -f $work/$program-tsan-plain/reported-none-$round ]] || tsan_run "$program" plain none "$round" || return 1
        done
        echo "$program as it was, $(known | wc -l) known after $((round - 1)) runs:"
        known | sed 's/^/  /'
        # shellcheck disable=SC2086
        for delegate in $delegates; do
            way_of "$delegate"
            # Of its sections half stay locks.
            [[ $program != berkeley || $name == hold ]] || { echo "$program under $delegate: not run, which cannot be held"; continue; }
            tsan_tree "$program" "$name" "$option"
            (cd "$work/$program-tsan-$name" && "${program}_started")
            tsan_run "$program" "$name" "$delegate" 1 || { failures=$((failures + 1)); continue; }
            for ((more = 0; more <= ${ROUNDS_MORE:-3}; more++)); do
                new=$(comm -13 <(known) "$work/$program-tsan-$name/reported-$delegate-1")
                [[ -n $new ]] && ((more < ${ROUNDS_MORE:-3})) || break
                tsan_run "$program" plain none "$round" || return 1
                round=$((round + 1))
            done
            echo "$program under $delegate: $(wc -l <"$work/$program-tsan-$name/reported-$delegate-1"), new: ${new:-none}"
            [[ -z $new ]] || failures=$((failures + 1))
        done
    done
    ((failures == 0)) || { echo "FAILED: $failures"; return 1; }
}
