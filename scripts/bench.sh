#!/usr/bin/env bash
# The benchmarks whose results are committed: the cost of an uncontended pair, whether locks collapse when threads
# outnumber CPUs, and the micro-benchmarks of `lockwork bench`. Run it on an otherwise idle machine.
#
#   scripts/bench.sh [pairs|every|startup|avl|rocksdb|crowds|blocking|rwlocks|locks|sim|monitor]...
#   (default: all but monitor, which needs root, and is monitor_costs, monitor_helps and monitor_crowd)
#
# Each writes results/<date>-<host>/<name>/{results.json,runs.csv,report.html} and its table as table.txt. Everything
# compared is interleaved within one run of `lockwork compare`. Takes about two hours.
set -euo pipefail
cd "$(dirname "$0")/.."

# Numbers are read and written as the programs do.
export LC_ALL=C

# Spinning locks as they were published: without the yields that Lockwork adds after a while.
export LOCKWORK_STRICT_SPIN=1

readonly BIN=target/release
# The base locks compared, each by itself and under GCR; BENCH_BASES overrides.
read -ra BASES <<<"${BENCH_BASES:-ttas ticket clh-spin clh-stp mcs-spin mcs-stp k42-spin k42-stp futex}"
readonly BASES
readonly KEYS=1000000
# How crowds are compared.
readonly CROWDS=(--threads 2,8,32 --runs "${BENCH_RUNS:-7}" --warmup 0 --timeout 20)
RESULTS=results/$(date +%F)-${BENCH_HOST:-$(uname -n)}
readonly RESULTS

# The arguments joined by commas, each as `gcr(...)` too.
with_gcr() {
    local list=pthread base
    for base in "$@"; do list+=",$base,gcr($base)"; done
    echo "$list"
}

# Compares; the first argument is the name of the result.
compare() {
    local out=$RESULTS/$1
    shift
    mkdir -p "$out"
    "$BIN/lockwork" compare --seed 1 --out "$out" "$@" | grep -v "^Report: " | tee "$out/table.txt"
    # What is committed does not depend on where the repository lies.
    sed -i "s|$PWD/||g" "$out"/{results.json,report.html}
}

# Uncontended lock and unlock through the preload, in a process with two threads.
pairs() {
    compare pairs --locks "$(with_gcr tas backoff "${BASES[@]}"),passthrough" --runs 11 --metric 'ns=ns: ([\d.]+)' \
        --metric 'calls=calls: ([\d.]+)' -- "$BIN/lockwork-pairs"
}

# The same for every lock of the catalogue, and every wrapper.
every() {
    compare every --locks "pthread,passthrough,all,gcr(futex),gcr-numa(futex),biased(futex),biased(mcs-stp)" --runs 9 \
        --metric 'ns=ns: ([\d.]+)' -- "$BIN/lockwork-pairs"
}

# The locks by themselves, without the preload; 8 threads are four times the CPUs of the host whose results are committed.
locks() {
    local out=$RESULTS/locks
    mkdir -p "$out/instances"
    "$BIN/lockwork" bench --locks "all,gcr(mcs-stp),gcr-numa(mcs-stp),biased(mcs-stp)" --threads 2,8 --time 0.1 --runs 3 \
        --timeout 2 --delay 200ns --lines 4 --seed 1 --out "$out" | tee "$out/table.txt"
    "$BIN/lockwork" bench contend --locks "all,gcr(mcs-stp),gcr-numa(mcs-stp),biased(mcs-stp)" --threads 2 --time 0.1 \
        --runs 3 --timeout 2 --instances 64 --seed 1 --out "$out/instances" | tee "$out/instances/table.txt"
    sed -i "s|$PWD/||g" "$out"/{,instances/}{results.json,table.txt}
}

# Starting a program two hundred times, with and without the library: microseconds for one start.
startup() {
    compare startup --locks pthread,passthrough,futex --runs 21 --metric 'us=us: ([\d.]+)' \
        -- "$BIN/lockwork-starts"
}

avl() {
    tree avl --locks "$(with_gcr "${BASES[@]}")" --threads 2,8,32 --runs "${BENCH_RUNS:-5}" --warmup 0 --timeout 5
}

# Compares on an AVL tree behind one lock; the first argument is the name of the result.
tree() {
    compare "$@" --metric '+ops/sec=ops/sec: (\d+)' -- "$BIN/lockwork-avl" '--threads={threads}' "--ops=${OPS:-500000}"
}

rocksdb() {
    readrandom rocksdb --locks "$(with_gcr "${BASES[@]}")" --threads 2,8,32 --runs "${BENCH_RUNS:-5}" --warmup 0 --timeout 5
}

# Each lock under GCR against itself with other numbers of threads, in a run of its own, so that what is compared is measured
# within the same minutes. About three quarters of an hour.
crowds() {
    # So much work that starting 32 threads does not count.
    local base READS=1000000 OPS=2000000
    for base in "${BASES[@]}"; do
        readrandom "crowds/rocksdb/$base" --locks "gcr($base)" "${CROWDS[@]}"
        tree "crowds/avl/$base" --locks "gcr($base)" "${CROWDS[@]}"
    done
    against_fewer_of rocksdb avl | tee "$RESULTS/crowds/table.txt"
    crowds_untrimmed
}

# RocksDB again, without what more threads cost whatever the lock: glibc's malloc gives each an arena, and trims that at every
# read, so that 32 threads have 25 times the page faults of 2.
crowds_untrimmed() (
    local base READS=1000000
    export GLIBC_TUNABLES=glibc.malloc.trim_threshold=1073741824:glibc.malloc.top_pad=1048576
    for base in "${BASES[@]}"; do
        readrandom "crowds/rocksdb-untrimmed/$base" --locks "gcr($base)" "${CROWDS[@]}"
    done
    against_fewer_of rocksdb-untrimmed | tee "$RESULTS/crowds/table-untrimmed.txt"
)

# `against_fewer` for each lock, of these programs.
against_fewer_of() {
    local program base ratios
    for program in "$@"; do
        for base in "${BASES[@]}"; do
            ratios=$(against_fewer "$RESULTS/crowds/$program/$base/runs.csv")
            printf '%-32s 32 threads have %s\n' "$program, gcr($base)" "$ratios"
        done
    done
}

# What 32 threads do, as ratios to what 2 and 8 did in the same round.
against_fewer() {
    local fewer text= ratio middle low high
    for fewer in 2 8; do
        ratio=$(awk -F, -v fewer="$fewer" '
            NR > 1 { rounds[$2]; if ($6 == "ok") rate[$2, $5] = $15 }
            # Who did not end did nothing.
            END { for (round in rounds) if ((round, fewer) in rate) print rate[round, 32] / rate[round, fewer] }
        ' "$1" | spread 0) || { echo "bench: no round of $1 ended with $fewer threads" >&2; return 1; }
        read -r middle low high <<<"$ratio"
        text+=$(printf '%s%.2f of %d (%.2f to %.2f)' "${text:+, }" "$middle" "$fewer" "$low" "$high")
    done
    echo "$text"
}

# The median of the numbers on stdin, and the two between which all lie but for the given share at either end: 0 for all, .25 for
# half of them.
spread() {
    sort -g | awk -v cut="$1" '
        { all[NR] = $1 }
        END {
            if (!NR) exit 1
            low = int(NR * cut) + 1
            print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2, all[low], all[NR + 1 - low]
        }'
}

# Fills the database $1 by a db_bench, the other arguments, unless that has been done, and has it in memory: no run is to wait for the
# disk.
provide() {
    local db=$1
    shift
    if [[ ! -d $db ]]; then
        rm -rf "$db.new"
        "$@" "--db=$db.new" --benchmarks=fillseq "--num=$KEYS" >"$db.log" 2>&1 || { tail -n 5 "$db.log" >&2; return 1; }
        mv "$db.new" "$db"
    fi
    cat "$db"/* >/dev/null
}

# Compares on RocksDB's readrandom with one block-cache shard; the first argument is the name of the result.
readrandom() {
    local db=target/bench-db
    provide "$db" db_bench --compression_type=none
    compare "$@" --metric '+ops/sec=readrandom .* (\d+) ops/sec' --metric '-P99 us=P99: ([\d.]+)' \
        -- db_bench "--db=$db" --use_existing_db=1 --benchmarks=readrandom '--threads={threads}' \
        "--num=$KEYS" "--reads={${READS:-200000}/threads}" --seed=1 --histogram=1 \
        --cache_size=8388608 --cache_numshardbits=0 --compression_type=none
}

# Compares on LevelDB's readrandom; the first argument is the name of the result. Its own figure adds up the times that threads took,
# which is less where some are through before others.
leveldb() {
    local db=target/bench-leveldb program=target/leveldb/db_bench
    if [[ ! -x $program ]]; then
        echo "bench: SKIPPED LevelDB: run scripts/leveldb.sh" >&2
        return
    fi
    provide "$db" "$program"
    compare "$@" --metric wall --metric 'us=readrandom +: +([\d.]+) micros/op' \
        -- "$program" "--db=$db" --use_existing_db=1 --benchmarks=readrandom '--threads={threads}' "--num=$KEYS" \
        "--reads={${READS:-1000000}/threads}"
}

# Locks that block, as users run them, on programs and on the workloads of the papers, from as many threads as CPUs of a small
# host to many more. About a quarter of an hour.
blocking() (
    local -a options=(--locks "pthread,gcr(mcs-stp),cst-mutex,linux-mutex" --threads 2,8,32,64 --runs "${BENCH_RUNS:-5}"
        --warmup 0 --timeout 20)
    local video=target/bench.y4m
    [[ -s $video ]] || make_video 200 >"$video"
    unset LOCKWORK_STRICT_SPIN
    tree blocking/avl "${options[@]}"
    compare blocking/hash "${options[@]}" --metric '+ops/sec=ops/sec: (\d+)' \
        -- "$BIN/lockwork-avl" --hash --lookup-percent=90 '--threads={threads}' --ops=500000
    compare blocking/kccachetest "${options[@]}" --metric 's=time: ([\d.]+)' \
        -- kccachetest wicked -th '{threads}' -it 1 '{400000/threads}'
    compare blocking/x265 "${options[@]}" --metric '+fps=\(([\d.]+) fps\)' \
        -- x265 --preset ultrafast --no-progress --pools '{threads}' -F 4 --input "$video" -o /dev/null
    readrandom blocking/rocksdb "${options[@]}"
    leveldb blocking/leveldb "${options[@]}"
)

# Reader-writer locks on a program whose hot lock is one, and on a hash table with one write in ten operations: threads that do nothing
# else, as in the CST paper (section 7.3), and threads with so much other work that the lock hardly matters.
rwlocks() (
    local -a options=(--locks "${BENCH_RWLOCKS:-pthread,rw-futex,cst-rwsem,cst-rwsem-neutral,bravo(cst-rwsem)}"
        --threads 2,8,32,64 --runs "${BENCH_RUNS:-5}" --warmup 0 --timeout 20)
    unset LOCKWORK_STRICT_SPIN
    compare rwlocks/kccachetest "${options[@]}" --metric 's=time: ([\d.]+)' \
        -- kccachetest wicked -th '{threads}' -it 1 '{400000/threads}'
    local -a hash=(--metric '+ops/sec=ops/sec: (\d+)' -- "$BIN/lockwork-avl" --hash --rwlock --lookup-percent=90 '--threads={threads}')
    compare rwlocks/hash "${options[@]}" "${hash[@]}" --external-work=0 --ops=4000000
    compare rwlocks/hash-and-work "${options[@]}" "${hash[@]}" --ops=500000
)

# A video of so many frames, 640 by 360, with digits that move: something to encode.
make_video() {
    local frame
    echo "YUV4MPEG2 W640 H360 F30:1 C420"
    for ((frame = 0; frame < $1; frame++)); do
        echo FRAME
        seq "$((frame * 7))" 99999 | tr -d '\n' | head -c $((640 * 360 * 3 / 2)) || true
    done
}

# Published results beside simulated ones, and how fast the simulation is.
sim() {
    local out=$RESULTS/sim
    mkdir -p "$out"
    "$BIN/lockwork" sim validate --out "$out"
    cargo bench --quiet -p lockwork-sim --bench speed | tee "$out/speed.txt"
}

# What the monitor costs, and what it is good for. About half an hour.
monitor() {
    monitor_costs
    monitor_helps
    monitor_crowd
}

monitor_costs() {
    local out=$RESULTS/monitor socket=$PWD/target/monitor.sock
    "$BIN/lockwork" monitor --check || return 0
    mkdir -p "$out"
    cargo build --quiet --release -p lockwork-monitor --example asks
    trap stop_monitor EXIT
    local by
    for by in probe watch; do
        overhead "switches-$by" 60 5 '^ns: ' "$BIN/lockwork-switches" --rounds 5000
        # A program that switches as much as programs do.
        overhead "kccachetest-$by" 40 3 '^time: ' kccachetest wicked -th 64 -it 1 6000
    done
}

# Aware locks beside plain ones, with as many threads as CPUs and with 16 times as many.
monitor_helps() {
    knowing few_and_many
}
few_and_many() {
    tree "monitor/by-$by" --locks "pthread,mcs-spin,mcs-stp,mcs-aware,clh-aware,flexguard,gcr(mcs-stp)" \
        --threads "$cpus,$((cpus * 16))" --runs "${BENCH_RUNS:-7}" --warmup 1 --timeout 20
}

# The one that is made for so many, against glibc's mutex alone, so often that some percent tell.
monitor_crowd() {
    knowing crowd
}
crowd() {
    OPS=1000000 tree "monitor/by-$by-crowd" --locks pthread,flexguard --threads $((cpus * 16)) --runs "${BENCH_RUNS:-25}" \
        --warmup 1 --timeout 20
}

# Runs a benchmark of aware locks whose waiters read CPU clocks, go by the monitor, or by signs.
knowing() {
    local socket=$PWD/target/monitor.sock by
    local -i cpus
    cpus=$(nproc)
    trap stop_monitor EXIT
    for by in clocks monitor signs; do
        if [[ $by == monitor ]]; then
            "$BIN/lockwork" monitor --check || continue
            start_monitor
        fi
        (
            export LOCKWORK_MONITOR=0 LOCKWORK_CPU_CLOCKS=0
            unset LOCKWORK_STRICT_SPIN
            case $by in
                clocks) unset LOCKWORK_CPU_CLOCKS ;;
                monitor) LOCKWORK_MONITOR=$socket ;;
            esac
            "$1"
        )
        stop_monitor
    done
}

# What the monitor costs a command that prints its time after the given pattern. While nobody asks: a process that is not
# attached, and one that is. While another process asks, which is there and wakes up as often before, too: the same two, the
# second of which is watched if `by` is that. No lock goes by what the monitor says, so that nothing else differs. Machines
# change their speed: short runs take turns, and of each round's medians ratios are made.
overhead() {
    local name=$1 rounds=${BENCH_RUNS:-$2} turns=$3 pattern=$4 round turn asks case
    local csv=$out/$name.csv preload=$PWD/$BIN/liblockwork.so policy=$PWD/target/watched.toml
    shift 4
    # A process attaches itself if any of its locks may be an aware one.
    printf '%s\n' 'default = "futex"' '[[rule]]' 'symbol = "no_such_lock"' 'lock = "mcs-aware"' >"$policy"
    echo "round,case,time,switches" >"$csv"
    for ((round = 1; round <= rounds; round++)); do
        for asks in $(printf '%s\n' no yes | shuf --random-source=<(yes "$round")); do
            start_monitor
            if [[ $asks == yes ]]; then ask "$socket"; else ask; fi
            for ((turn = 0; turn < turns; turn++)); do
                for case in $([[ $asks == yes ]] && echo asked watched || echo none attached); do
                    timed "$@" || return 1
                done
            done
            stop_monitor
        done
    done
    {
        echo "$ $*"
        for case in none attached asked watched; do
            of_rounds
        done
    } | tee "$out/$name.txt"
}

# Runs the command in this case, and notes the time that it prints.
timed() {
    local before after value monitor=0
    [[ $case == none || $case == asked ]] || monitor=$socket
    before=$(switches)
    value=$(env "LD_PRELOAD=$preload" "LOCKWORK_POLICY=$policy" LOCKWORK_CPU_CLOCKS=0 "LOCKWORK_MONITOR=$monitor" "$@" |
        sed -n "s/$pattern//p")
    after=$(switches)
    [[ $value =~ ^[0-9.]+$ ]] || { echo "bench: one time was expected of: $*" >&2; return 1; }
    echo "$round,$case,$value,$((after - before))" >>"$csv"
}

# What the rounds say of a case.
of_rounds() {
    local time ratio low high often cut
    read -r time _ < <(sed -n "s/^[0-9]*,$case,\(.*\),.*/\1/p" "$csv" | spread 0)
    read -r often _ < <(sed -n "s/^[0-9]*,$case,.*,//p" "$csv" | spread 0)
    # So many of the rounds at either end are outside the 95% interval of their median.
    cut=$(awk -v n="$rounds" 'BEGIN { cut = .5 - .98 / sqrt(n); print (cut > 0 ? cut : 0) }')
    read -r ratio low high < <(tail -n +2 "$csv" | sort -t, -k1,1n -k2,2 -k3,3g | awk -F, -v which="$case" '
        { all[$1, $2, ++runs[$1, $2]] = $3; if ($1 > rounds) rounds = $1 }
        function median(round, name,    n) {
            n = runs[round, name]
            return (all[round, name, int((n + 1) / 2)] + all[round, name, int(n / 2) + 1]) / 2
        }
        END { for (round = 1; round <= rounds; round++) print median(round, which) / median(round, "none") }
    ' | spread "$cut")
    printf '%-8s median %8.4g, of those of the same round that are neither %.4f (95%% interval %.4f to %.4f), %.0f switches\n' \
        "$case" "$time" "$ratio" "$low" "$high" "$often"
}

# Sets `client`, a process that asks the monitor at this socket a thousand times a second, and waits until it is told; or one
# that wakes up as often and asks nobody.
ask() {
    exec 3< <(exec "$BIN/examples/asks" "$@")
    client=$!
    read -r -t 10 _ <&3 || { echo "bench: the monitor does not tell who runs" >&2; return 1; }
}

# Context switches of the whole machine since it started.
switches() {
    sed -n 's/^ctxt //p' /proc/stat
}

daemon= # the monitor's process, while it runs
client= # a process that asks it

# Sets `daemon`, which listens at `socket`; waits until programs can connect.
start_monitor() {
    rm -f "$socket"
    "$BIN/lockwork" monitor --socket "$socket" $([[ ${by-} == watch ]] && echo --watch) >/dev/null &
    daemon=$!
    until [[ -S $socket ]]; do sleep 0.05; done
}

stop_monitor() {
    local process
    for process in $client $daemon; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    client= daemon=
}

for name in "${@:-pairs every startup avl rocksdb crowds blocking rwlocks locks sim}"; do
    for benchmark in $name; do
        "$benchmark"
    done
done
