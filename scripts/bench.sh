#!/usr/bin/env bash
# The benchmarks whose results are committed. Run it on an otherwise idle machine.
#
#   scripts/bench.sh [NAME]...              default: all of them but `against`, `monitor` and `profile_costs`; about two hours
#   scripts/bench.sh quick                  the figures of the default lock, in 25 minutes at most
#   scripts/bench.sh against OLD.so [pairs|crowds|blocking]...
#                                           this build of the library against another, each lock against itself
#
# NAME is one of: pairs every startup avl rocksdb crowds blocking queue rwlocks memory locks oversubscribed closures kernels sim, profile_costs, and
# monitor, which needs root and is monitor_costs, monitor_helps and monitor_crowd.
#
# Each writes results/<date>-<host>/<name>/: table.txt, runs.csv and meta.json (host, commit, command, seed, date, rounds),
# which are committed, and report.html and results.json, which are not: `lockwork compare --report-from results` makes them
# again. Everything that is compared is interleaved within one run of `lockwork compare`, and paired by round.
#
# BENCH_HOST names the host, BENCH_ROUNDS the rounds in place of each benchmark's own number, BENCH_LOCK the lock that `against` takes
# for the default: an older library may not know that one.
set -euo pipefail
cd "$(dirname "$0")/.."

# Numbers are read and written as the programs do.
export LC_ALL=C

readonly BIN=target/release
# The lock that serves where none is named.
readonly DEFAULT=auto
# The base locks compared, each by itself and under GCR.
readonly BASES=(ttas ticket clh-spin clh-stp mcs-spin mcs-stp k42-spin k42-stp futex)
# Keys of the databases.
readonly KEYS=1000000
RESULTS=results/$(date +%F)-${BENCH_HOST:-$(uname -n)}
readonly RESULTS
# Results of before are no change of what is measured.
COMMIT=$(git describe --always --abbrev=12 2>/dev/null || echo unknown)
git diff --quiet HEAD -- . ':!results' 2>/dev/null || COMMIT+=-dirty
readonly COMMIT

# ---- What is compared ----

# The arguments joined by commas.
joined() {
    local IFS=,
    echo "$*"
}

# The mutexes, each with reader-writer locks left to glibc: what is measured is the mutex. Behind them the baseline.
alone() {
    local list=pthread lock
    for lock in "$@"; do list+=",$lock+pthread"; done
    echo "$list"
}

# Each lock by itself and under GCR.
and_gcr() {
    local base
    for base in "$@"; do echo "$base" "gcr($base)"; done
}

# Rounds: BENCH_ROUNDS, or the argument.
rounds() {
    echo "${BENCH_ROUNDS:-$1}"
}

# Runs a command with locks as they were published, which spin without the yields that Lockwork adds after a while.
strictly() {
    LOCKWORK_STRICT_SPIN=1 "$@"
}

# Compares; the first argument is the name of the result.
compare() {
    local name=$1
    shift
    echo "bench: $name, $(date +%T)" >&2
    "$BIN/lockwork" compare --seed 1 --commit "$COMMIT" --out "$RESULTS/$name" "$@" | grep -v '^Report: '
}

# ---- Workloads: `WORKLOAD NAME [SIZE] OPTION...` compares by these options of `lockwork compare` on the workload ----

on_pairs() {
    compare "$@" --metric 'ns=ns: ([\d.]+)' --metric 'calls=calls: ([\d.]+)' -- "$BIN/lockwork-pairs"
}

on_tree() {
    local name=$1 operations=$2
    shift 2
    compare "$name" "$@" --metric '+ops/sec=ops/sec: (\d+)' \
        -- "$BIN/lockwork-avl" '--threads={threads}' "--ops=$operations"
}

on_hash() {
    compare "$@" --metric '+ops/sec=ops/sec: (\d+)' \
        -- "$BIN/lockwork-avl" --hash --lookup-percent=90 '--threads={threads}' --ops=500000
}

on_kccachetest() {
    compare "$@" --metric 's=time: ([\d.]+)' -- kccachetest wicked -th '{threads}' -it 1 '{400000/threads}'
}

on_x265() {
    local video=target/bench.y4m
    [[ -s $video ]] || make_video 200 >"$video"
    compare "$@" --metric '+fps=\(([\d.]+) fps\)' \
        -- x265 --preset ultrafast --no-progress --pools '{threads}' -F 4 --input "$video" -o /dev/null
}

# RocksDB's readrandom with one block-cache shard, so that all threads meet at one mutex.
on_rocksdb() {
    local name=$1 reads=$2 db=target/bench-db
    shift 2
    provide "$db" db_bench --compression_type=none
    compare "$name" "$@" --metric '+ops/sec=readrandom .* (\d+) ops/sec' --metric '-P99 us=P99: ([\d.]+)' \
        -- db_bench "--db=$db" --use_existing_db=1 --benchmarks=readrandom '--threads={threads}' \
        "--num=$KEYS" "--reads={$reads/threads}" --seed=1 --histogram=1 \
        --cache_size=8388608 --cache_numshardbits=0 --compression_type=none
}

# LevelDB's readrandom. Its own figure adds up the times that threads took, which is less where some end before others.
on_leveldb() {
    local db=target/bench-leveldb program=target/leveldb/db_bench
    if [[ ! -x $program ]]; then
        echo "bench: SKIPPED LevelDB: run scripts/leveldb.sh" >&2
        return
    fi
    provide "$db" "$program"
    compare "$@" --metric wall --metric 'us=readrandom +: +([\d.]+) micros/op' \
        -- "$program" "--db=$db" --use_existing_db=1 --benchmarks=readrandom '--threads={threads}' "--num=$KEYS" \
        '--reads={1000000/threads}'
}

# A bounded queue behind one mutex and two conditions, as many producers as consumers as `--threads` says. Where all is
# hand-over a run has fewer items.
on_queue() {
    local name=$1 capacity=$2 work=$3 items=200000
    shift 3
    ((capacity < 100)) || ((work > 0)) || items=5000000
    compare "$name" "$@" --metric '+items/sec=items/sec: (\d+)' --metric '+streak=streak: ([\d.]+)' \
        --metric 'switches=switches/item: ([\d.]+)' \
        -- "$BIN/lockwork-queue" --producers '{threads}' --consumers '{threads}' --capacity "$capacity" \
        --work-ns "$work" --items "$items"
}

# Fills the database $1 by a db_bench, the other arguments, unless that has been done, and has it in memory: no run is to
# wait for the disk.
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

# A video of so many frames, 640 by 360, with digits that move: something to encode.
make_video() {
    local frame
    echo "YUV4MPEG2 W640 H360 F30:1 C420"
    for ((frame = 0; frame < $1; frame++)); do
        echo FRAME
        seq "$((frame * 7))" 99999 | tr -d '\n' | head -c $((640 * 360 * 3 / 2)) || true
    done
}

# The six workloads on which locks that block are compared, by these options; the first argument is the name of the result.
six_workloads() {
    local name=$1
    shift
    on_tree "$name/avl" 500000 "$@"
    on_hash "$name/hash" "$@"
    on_kccachetest "$name/kccachetest" "$@"
    on_x265 "$name/x265" "$@"
    on_rocksdb "$name/rocksdb" 200000 "$@"
    on_leveldb "$name/leveldb" "$@"
}

# ---- Benchmarks ----

# Uncontended lock and unlock through the preload, in a process with two threads.
pairs() {
    local -a locks
    mapfile -t locks < <(and_gcr tas backoff "${BASES[@]}" | tr ' ' '\n')
    strictly on_pairs pairs --locks "$(alone "$DEFAULT" cst-mutex "${locks[@]}" 'biased(ttas)'),passthrough" --runs "$(rounds 11)"
}

# The same for every lock, and every wrapper.
every() {
    local wrapped
    wrapped=$(alone 'gcr(futex)' 'gcr-numa(futex)' 'biased(futex)' 'biased(mcs-stp)')
    strictly on_pairs every --locks "$wrapped,passthrough,all+pthread" --runs "$(rounds 9)"
}

# Starting a program two hundred times, with and without the library: microseconds for one start.
startup() {
    compare startup --locks pthread,passthrough,futex --runs "$(rounds 21)" --metric 'us=us: ([\d.]+)' \
        -- "$BIN/lockwork-starts"
}

# Whether locks collapse when threads outnumber CPUs, and what GCR does about it.
avl() {
    on_collapse on_tree avl 500000
}
rocksdb() {
    on_collapse on_rocksdb rocksdb 200000
}
on_collapse() {
    local -a locks
    mapfile -t locks < <(and_gcr "${BASES[@]}" | tr ' ' '\n')
    strictly "$@" --locks "$(alone "${locks[@]}")" --threads 2,8,32 --runs "$(rounds 7)" --warmup 0 --timeout 5
}

# Each lock under GCR against itself with other numbers of threads, in a run of its own, so that what is compared is
# measured within the same minutes. About three quarters of an hour.
crowds() {
    local -a locks=()
    local base
    for base in "${BASES[@]}"; do locks+=("gcr($base)"); done
    strictly crowds_of "${locks[@]}"
}
crowds_of() {
    local lock
    # So much work that starting 32 threads does not count. In rocksdb-untrimmed glibc's malloc does not trim each thread's
    # arena at every read, which costs 32 threads 25 times the page faults of 2, whatever the lock.
    for lock in "$@"; do
        crowd "rocksdb/$lock" "$lock" on_rocksdb 1000000
        crowd "avl/$lock" "$lock" on_tree 2000000
        GLIBC_TUNABLES=glibc.malloc.trim_threshold=1073741824:glibc.malloc.top_pad=1048576 \
            crowd "rocksdb-untrimmed/$lock" "$lock" on_rocksdb 1000000
    done
    against_fewer_in "$RESULTS"/crowds/*/*/runs.csv | tee "$RESULTS/crowds/table.txt"
}
crowd() {
    local name=$1 lock=$2 workload=$3 size=$4
    "$workload" "crowds/$name" "$size" --locks "$lock+pthread" --threads 2,8,32 --runs "$(rounds 7)" --warmup 0 --timeout 20
}

# What 32 threads do of what 2 and 8 did in the same round, for each of these files, and what was served there.
against_fewer_in() {
    local file name of_2 of_8
    for file in "$@"; do
        of_2=$(against_fewer "$file" 2)
        of_8=$(against_fewer "$file" 8)
        name=${file#"$RESULTS/crowds/"}
        printf '%-40s 32 threads have %s, %s\n' "${name%/runs.csv}" "$of_2" "$of_8"
        sed -nE 's/^.* \([0-9]+ threads\): (served |nothing was heard)/    \1/p' "${file%/runs.csv}/table.txt"
    done
}
against_fewer() {
    local middle low high
    read -r middle low high < <(awk -F, -v fewer="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        { rounds[$column["round"]] }
        # A run that did not end did nothing.
        $column["outcome"] == "ok" { rate[$column["round"], $column["threads"]] = $column["metric:ops/sec"] }
        END { for (round in rounds) if ((round, fewer) in rate) print rate[round, 32] / rate[round, fewer] }
    ' "$1" | spread 0) || { echo "bench: no round of $1 ended with $2 threads" >&2; return 1; }
    printf '%.2f of %d (%.2f to %.2f)' "$middle" "$2" "$low" "$high"
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

# Locks that block, as users run them, on programs and on the workloads of the papers, from as many threads as CPUs of a small
# host to many more: the default, and the fixed locks that it has to be as good as. About half an hour.
blocking() {
    six_workloads blocking --locks "$(alone "$DEFAULT" cst-mutex futex mcs-stp 'gcr(mcs-stp)')" --threads 2,8,32,64 \
        --runs "$(rounds 7)" --warmup 0 --timeout 20
}

# Bounded queues: a place for one item, where all is hand-over, and for a thousand, without and with a microsecond of work
# for an item on either side. A quarter of an hour.
queue() {
    queues "$(alone "$DEFAULT" cst-mutex 'gcr(mcs-stp)' futex)" 1 1000
}
queues() {
    local locks=$1 capacity work
    shift
    for capacity in "$@"; do
        for work in 0 1000; do
            on_queue "queue/capacity-$capacity-work-$work" "$capacity" "$work" --locks "$locks" --threads 1,16 \
                --runs "$(rounds 9)" --warmup 0 --timeout 20
        done
    done
}

# Reader-writer locks, mutexes left to glibc, on a program whose hot lock is one, and on a hash table with one write in ten
# operations: threads that do nothing else, as in the CST paper (section 7.3), and threads with so much other work that the
# lock hardly matters.
rwlocks() {
    local -a options=(--locks 'pthread,rw-futex,cst-rwsem,cst-rwsem-neutral,bravo(cst-rwsem)' --threads 2,8,32,64
        --runs "$(rounds 9)" --warmup 0 --timeout 20)
    on_kccachetest rwlocks/kccachetest "${options[@]}"
    local -a hash=(--metric '+ops/sec=ops/sec: (\d+)' -- "$BIN/lockwork-avl" --hash --rwlock --lookup-percent=90 '--threads={threads}')
    compare rwlocks/hash "${options[@]}" "${hash[@]}" --external-work=0 --ops=4000000
    compare rwlocks/hash-and-work "${options[@]}" "${hash[@]}" --ops=500000
}

# What locks cost that are contended and freed without having been destroyed, and 200,000 waits that end at their deadline:
# how much resident memory grows, and what the release takes afterwards. `glibc` is the program by itself.
memory() {
    local -r out=$RESULTS/memory
    local -a shared=(glibc mcs-stp+{cst-rwsem,cst-rwsem-neutral,c-rw-np,c-rw-wp,c-rw-rp,pf-q,pf-q-stp,linux-rwsem,auto-rw}
        'mcs-stp+bravo(cst-rwsem)')
    local program lock
    mkdir -p "$out"
    program=$(mktemp)
    g++ -O2 -pthread crates/testkit/tests/memory.cpp -o "$program"
    describe memory "$(rounds 5)" 'memory.cpp mutex|shared 100000 4, timeouts|shared-timeouts 200000 4' >"$out/meta.json"
    {
        for lock in glibc "$DEFAULT" cst-mutex c-bo-mcs-stp c-tkt-tkt c-ptl-tkt c-mcs-mcs-stp c-tkt-mcs-stp hticket-ls hmcs-stp ahmcs-stp \
            fc-mcs-stp hclh-stp cna-stp shfl-stp fissile-stp 'gcr(mcs-stp)' 'gcr(cst-mutex)' 'gcr-numa(mcs-stp)' glk alock ptl; do
            memory_of "$program" mutex 100000 "$lock"
        done
        for lock in "${shared[@]}"; do memory_of "$program" shared 100000 "$lock"; done
        for lock in glibc "$DEFAULT" cst-mutex mcs-stp mcs-spin mcs-aware clh-stp k42-stp hemlock-stp reciprocating-stp malth-stp cna-stp \
            shfl-stp mcs-try-stp mcs-timepub flexguard c-mcs-mcs-stp c-bo-mcs-stp c-tkt-mcs-stp hmcs-stp ahmcs-stp hclh-stp \
            fc-mcs-stp fissile-stp glk linux-mutex mutexee 'gcr(mcs-stp)' 'gcr-numa(mcs-stp)' 'gcr(cst-mutex)' 'biased(mcs-stp)' ticket \
            alock ptl futex lc twa tas backoff mcs-ls clh-ls; do
            memory_of "$program" timeouts 200000 "$lock"
        done
        for lock in "${shared[@]}" mcs-stp+rw-futex; do memory_of "$program" shared-timeouts 200000 "$lock"; done
    } | tee "$out/table.txt"
    rm "$program"
}

# A line of the table: the median of the runs, and from where to where they go; under a lock, with what it served.
memory_of() {
    local -r program=$1 what=$2 number=$3 lock=$4
    local -a under=()
    local run runs=1 errors figures served= kib ns
    # How long a release takes depends on what else runs.
    [[ $what != *timeouts ]] || runs=$(rounds 5)
    errors=$(mktemp)
    figures=$(mktemp)
    [ "$lock" = glibc ] || under=(LD_PRELOAD="$PWD/$BIN/liblockwork.so" LOCKWORK_LOCK="$lock" LOCKWORK_VERBOSE=1)
    for ((run = 0; run < runs; run++)); do
        env "${under[@]}" timeout 300 "$program" "$what" "$number" 4 2>"$errors" >>"$figures" ||
            echo "bench: $program $what under $lock failed" >&2
        grep -v '\]: served ' "$errors" >&2 || true
    done
    if [ "$lock" != glibc ]; then
        served=$(sed -nE "s/^lockwork: ${program##*/}\[[0-9]+\]: (served .*); forwarded .*/\1/p" "$errors")
        served="; ${served:-nothing was heard of what it served}"
    fi
    kib=$(memory_figure grew_kib "$figures")
    ns=$(memory_figure release_ns "$figures")
    rm "$errors" "$figures"
    printf '%-15s %-25s grew_kib %s%s%s\n' "$what" "$lock" "$kib" "${ns:+, release_ns $ns}" "$served"
}
memory_figure() {
    local middle low high
    read -r middle low high < <(sed -nE "s/.*$1 (-?[0-9]+).*/\1/p" "$2" | spread 0) || return 0
    if [[ $low == "$high" ]]; then printf '%.0f' "$middle"; else printf '%.0f (%.0f to %.0f)' "$middle" "$low" "$high"; fi
}

# The locks by themselves, without the preload; 8 threads are four times the CPUs of a small host.
locks() {
    local -a options=(--locks 'all,gcr(mcs-stp),gcr-numa(mcs-stp),biased(mcs-stp)' --time 0.1 --runs "$(rounds 7)" --timeout 2
        --seed 1 --commit "$COMMIT")
    strictly "$BIN/lockwork" bench "${options[@]}" --threads 2,8 --delay 200ns --lines 4 --out "$RESULTS/locks"
    strictly "$BIN/lockwork" bench contend "${options[@]}" --threads 2 --instances 64 --out "$RESULTS/locks/instances"
}

# More threads than CPUs that think between two sections: the usual server, in which locks convoyed on simulated machines
# (docs/decisions/021-cst-mutex-wakes-one.md, 022-waiters-in-a-crowd-give-way.md). In front the baseline.
oversubscribed() {
    local think
    for think in 1us 10us 50us; do
        "$BIN/lockwork" bench contend --locks 'futex,cst-mutex,cst-mutex(wake=15),auto,mcs-stp,gcr(mcs-stp),gcr(futex),gcr-numa(mcs-stp)' \
            --threads 2,4,8,32 --delay "$think" --lines 3 --time 0.2 --runs "$(rounds 9)" --timeout 5 --seed 1 --commit "$COMMIT" \
            --out "$RESULTS/oversubscribed/$think"
    done
}

# Sections of five lines handed to delegates, by the time that threads think between two, beside std::sync::Mutex, parking_lot and
# lamlock.
closures() {
    local think
    local -a delegates=(cc-synch dsm-synch fc h-synch oyama p-sim ffwd rcl sanl sanl-plus 'locked(mcs-stp)' 'locked(cst-mutex)'
        parking_lot lamlock)
    for think in 0 100ns 1us; do
        echo "bench: closures, $think, $(date +%T)" >&2
        "$BIN/lockwork" bench closures --locks "$(joined "${delegates[@]}")" --threads 1,2,8,32 --delay "$think" --lines 5 \
            --time 0.2 --timeout 5 --runs "$(rounds 7)" --seed 1 --commit "$COMMIT" --out "$RESULTS/closures/think-$think"
    done
}

# Kernels in the manner of SPLASH and Phoenix, of which `lockwork transform` has made closures, beside themselves as they were.
# Needs libclang and the library for C programs.
kernels() {
    local work=target/bench-kernels name
    local -a delegates=('locked(futex)' cc-synch fc rcl sanl-plus)
    rm -rf "$work"
    mkdir -p "$work"
    cp -r crates/reengineer/kernels "$work/before"
    cp -r crates/reengineer/kernels "$work/after"
    for name in "$work"/after/*.c; do
        printf '%s{"directory": "%s", "file": "%s", "arguments": ["cc", "-std=gnu11", "-c", "%s"]}' \
            "${comma-[}" "$PWD/$work/after" "${name##*/}" "${name##*/}"
        local comma=,
    done >"$work/after/compile_commands.json"
    echo ']' >>"$work/after/compile_commands.json"
    "$BIN/lockwork" transform -p "$work/after" --in-place
    # So much that a run takes some tenths of a second.
    kernel radiosity 300
    kernel raytrace 120
    kernel linear_regression 6000000 map_reduce.c
    kernel matrix_multiply 1000 map_reduce.c
    kernel string_match 2500000 map_reduce.c
}

# kernel NAME SIZE [FILE]: compiles it as it was and as it is, and compares.
kernel() {
    local name=$1 size=$2 tree file=${3:-}
    for tree in before after; do
        gcc -std=gnu11 -O2 -pthread -Icrates/capi/include "$work/$tree/$name.c" ${file:+"$work/$tree/$file"} \
            -o "$work/$tree/$name" "$BIN/liblockwork_c.a" -lm -ldl
    done
    compare "kernels/$name" --original "$work/before/$name {threads} $size time" --locks pthread \
        --delegates "$(joined "${delegates[@]}")" --threads 2,8 --runs "$(rounds 6)" --timeout 10 \
        --metric '+ops/sec=ops/sec: (\d+)' -- "$work/after/$name" '{threads}' "$size" time
}

# Published results beside simulated ones, and how fast the simulation is.
sim() {
    local out=$RESULTS/sim
    mkdir -p "$out"
    "$BIN/lockwork" sim validate --out "$out"
    cargo bench --quiet -p lockwork-sim --bench speed | tee "$out/speed.txt"
}

# ---- The default lock, quickly ----

quick() {
    local begin=$SECONDS
    local -a options=(--threads 2,8,32,64 --runs "$(rounds 7)" --warmup 0 --timeout 20)
    on_pairs quick/pairs --locks "$(alone "$DEFAULT" mcs-stp 'gcr(mcs-stp)' futex ttas),passthrough" --runs "$(rounds 11)"
    six_workloads quick --locks "$(alone "$DEFAULT")" "${options[@]}"
    queues "$(alone "$DEFAULT" 'gcr(mcs-stp)')" 1 1000
    crowd "avl/$DEFAULT" "$DEFAULT" on_tree 2000000
    crowd "rocksdb/$DEFAULT" "$DEFAULT" on_rocksdb 1000000
    against_fewer_in "$RESULTS"/crowds/{avl,rocksdb}/"$DEFAULT"/runs.csv
    echo "bench: quick took $(((SECONDS - begin) / 60)) minutes" >&2
}

# ---- This build against another ----

# `against OLD.so [pairs|crowds|blocking]...`: each lock under this build of the library against itself under the other.
against() {
    local old=$1 name
    shift
    [[ -f $old ]] || { echo "bench: no library at $old" >&2; return 2; }
    [[ $# -gt 0 ]] || set -- pairs crowds blocking
    for name in "$@"; do
        case $name in
            pairs | crowds | blocking) "against_$name" "old=$old,new=$BIN/liblockwork.so" ;;
            *) echo "bench: against knows pairs, crowds and blocking, not $name" >&2; return 2 ;;
        esac
    done
}

# The other build may not know `NAME+pthread`: both serve reader-writer locks alike.
against_pairs() {
    strictly on_pairs against/pairs --libraries "$1" --runs "$(rounds 9)" \
        --locks 'all,gcr(futex),gcr(mcs-stp),gcr(ticket),biased(futex),biased(ttas),passthrough'
}
against_crowds() {
    local -a locks=("${BENCH_LOCK:-$DEFAULT}") options=(--libraries "$1" --threads 2,32 --runs "$(rounds 7)" --warmup 0 --timeout 20)
    local base
    for base in "${BASES[@]}"; do locks+=("gcr($base)"); done
    strictly on_tree against/crowds-avl 1000000 --locks "$(joined "${locks[@]}")" "${options[@]}"
    strictly on_rocksdb against/crowds-rocksdb 500000 --locks "$(joined "${locks[@]}")" "${options[@]}"
}
against_blocking() {
    six_workloads against/blocking --libraries "$1" --locks "${BENCH_LOCK:-$DEFAULT}" --threads 2,8,32,64 \
        --runs "$(rounds 7)" --warmup 0 --timeout 20
}

# ---- The recorder: what it costs, switched off and switched on. About half an hour. ----

profile_costs() {
    local db=target/bench-db
    recorded pairs 21 '^ns: ([0-9.]+)' "$BIN/lockwork-pairs"
    recorded avl 15 '^ops\/sec: ([0-9]+)' "$BIN/lockwork-avl" --threads=2 --ops=500000
    recorded kccachetest 15 '^time: ([0-9.]+)' kccachetest wicked -th 2 -it 1 100000
    recorded_x265
    provide "$db" db_bench --compression_type=none
    recorded rocksdb 15 '^readrandom .* ([0-9]+) ops\/sec' db_bench "--db=$db" --use_existing_db=1 --benchmarks=readrandom \
        --threads=2 "--num=$KEYS" --reads=100000 --cache_size=8388608 --cache_numshardbits=0 --compression_type=none
    recorded_memcached
    recorded_mariadb
}

# Of a server's programs the server alone has the library; its client says the figure.
server=()
is_up=()

recorded_x265() {
    [[ -s target/bench.y4m ]] || make_video 200 >target/bench.y4m
    recorded x265 9 '\(([0-9.]+) fps\)' x265 --preset ultrafast --no-progress --pools 2 -F 4 --input target/bench.y4m -o /dev/null
}
recorded_memcached() {
    if ! type -P memcached memcaslap >/dev/null; then
        echo "bench: SKIPPED memcached: apt install memcached libmemcached-tools" >&2
        return
    fi
    server=(memcached -u "$(id -un)" -l 127.0.0.1 -p 11311 -t 2 -m 64 -U 0)
    is_up=(bash -c '</dev/tcp/127.0.0.1/11311')
    recorded memcached 15 'TPS: ([0-9]+)' memcaslap -s 127.0.0.1:11311 -T 1 -c 16 -t 2s
    server=()
}

recorded_mariadb() {
    if ! type -P mariadbd sysbench >/dev/null; then
        echo "bench: SKIPPED MariaDB: apt install mariadb-server sysbench" >&2
        return
    fi
    local data=$PWD/target/bench-mariadb
    local -a load=(sysbench oltp_point_select --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port=13306 --mysql-user=root
        --tables=1 --table-size=10000)
    server=(mariadbd --no-defaults "--user=$(id -un)" "--datadir=$data" --bind-address=127.0.0.1 --port=13306 "--socket=$data/socket"
        --skip-grant-tables --skip-networking=0 --innodb-buffer-pool-size=64M)
    is_up=(bash -c '</dev/tcp/127.0.0.1/13306')
    rm -rf "$data"
    mariadb-install-db --no-defaults "--user=$(id -un)" "--datadir=$data" --auth-root-authentication-method=normal >/dev/null
    start_server
    mariadb --no-defaults -S "$data/socket" -e 'CREATE DATABASE sbtest'
    "${load[@]}" prepare >/dev/null
    stop_background
    recorded mariadb 11 'queries: +[0-9]+ +\(([0-9.]+) per sec' "${load[@]}" --threads=4 --time=2 --histogram=off run
    server=()
}

# Starts the server with these variables, and waits until it answers.
start_server() {
    local try
    env "$@" "${server[@]}" >/dev/null 2>&1 &
    background+=($!)
    for ((try = 0; try < 200; try++)); do
        "${is_up[@]}" 2>/dev/null && return
        sleep 0.1
    done
    echo "bench: after 20 s there is no answer from: ${server[*]}" >&2
    return 1
}

# What the recorder does to a figure that a command prints, under glibc's locks behind the library and under the default one: the
# same library without it, with it switched off, and with it switched on, in turns. The pattern has the figure in its first group.
recorded() {
    local name=$1 rounds pattern=$3 lock round case
    rounds=$(rounds "$2")
    shift 3
    for lock in passthrough "$DEFAULT"; do
        echo "bench: recorder, $name, $lock, $(date +%T)" >&2
        local out=$RESULTS/profile_costs/$name-$lock
        mkdir -p "$out"
        describe "$name under $lock" "$rounds" "$*" >"$out/meta.json"
        echo "round,case,figure,switches" >"$out/runs.csv"
        for ((round = 1; round <= rounds; round++)); do
            for case in $(printf '%s\n' none off on | shuf --random-source=<(yes "$round")); do
                echo "$round,$case,$(figure_of "$case" "$lock" "$pattern" "$@")" >>"$out/runs.csv"
            done
        done
        {
            echo "$ $*, under $lock"
            for case in none off on; do of_rounds "$out/runs.csv" "$case" "$rounds" 'without a recorder'; done
        } | tee "$out/table.txt"
    done
}

# Runs the command with the recorder in this state and prints the figure that it prints, and how many context switches the machine
# made meanwhile.
figure_of() {
    local case=$1 lock=$2 pattern=$3 before value directory
    shift 3
    directory=$(mktemp -d)
    local -a under=("LD_PRELOAD=$PWD/$BIN/liblockwork.so" "LOCKWORK_LOCK=$lock")
    [[ $case == none ]] || under+=("LOCKWORK_PROFILE=$directory/profile")
    [[ $case != off ]] || under+=(LOCKWORK_PROFILE_OFF=1)
    if [[ ${#server[@]} -gt 0 ]]; then
        start_server "${under[@]}"
        under=()
    fi
    before=$(switches)
    value=$(env "${under[@]}" "$@" 2>&1 | sed -En "s/.*${pattern#^}.*/\1/p" | tail -n 1)
    echo "$value,$(($(switches) - before))"
    stop_background
    rm -r "$directory"
    [[ $value =~ ^[0-9.]+$ ]] || { echo "bench: a figure was expected of: $*" >&2; return 1; }
}

# ---- The monitor: what it costs, and what it is good for. About half an hour, as root. ----

monitor() {
    monitor_costs
    monitor_helps
    monitor_crowd
}

monitor_costs() {
    local way
    has_monitor || return 0
    cargo build --quiet --release -p lockwork-monitor --example asks
    for way in probe watch; do
        overhead "$way" switches 60 5 '^ns: ' "$BIN/lockwork-switches" --rounds 5000
        # A program that switches as much as programs do.
        overhead "$way" kccachetest 40 3 '^time: ' kccachetest wicked -th 64 -it 1 6000
    done
}

# Aware locks beside plain ones, with as many threads as CPUs and with 16 times as many.
monitor_helps() {
    local cpus
    cpus=$(nproc)
    knowing '' --locks "$(alone mcs-spin mcs-stp mcs-aware clh-aware flexguard 'gcr(mcs-stp)')" \
        --threads "$cpus,$((cpus * 16))" --runs "$(rounds 7)" --warmup 1 --timeout 20
}

# The one that is made for so many, against glibc's mutex alone, so often that some percent tell.
monitor_crowd() {
    knowing -crowd --locks "$(alone flexguard)" --threads $(($(nproc) * 16)) --runs "$(rounds 25)" --warmup 1 --timeout 20
}

# Compares on the tree by these options, with waiters that read CPU clocks, ask the monitor, or go by signs; the first argument
# ends the name of the results.
knowing() {
    local suffix=$1 socket=$PWD/target/monitor.sock
    shift
    LOCKWORK_MONITOR=0 on_tree "monitor/by-clocks$suffix" 1000000 "$@"
    LOCKWORK_MONITOR=0 LOCKWORK_CPU_CLOCKS=0 on_tree "monitor/by-signs$suffix" 1000000 "$@"
    has_monitor || return 0
    start_monitor "$socket"
    LOCKWORK_MONITOR=$socket LOCKWORK_CPU_CLOCKS=0 on_tree "monitor/by-monitor$suffix" 1000000 "$@"
    stop_background
}

# What the monitor costs a command that prints its time after the given pattern. While nobody asks: a process that is not
# attached, and one that is. While another process asks, which is there and wakes up as often before, too: the same two, the
# second of which is watched if the way is that. No lock goes by what the monitor says, so that nothing else differs. Machines
# change their speed: short runs take turns, and of each round's medians ratios are made.
overhead() {
    local way=$1 name=$2-$1 rounds turns=$4 pattern=$5 round turn asks case
    rounds=$(rounds "$3")
    shift 5
    local out=$RESULTS/monitor/$name csv=$RESULTS/monitor/$name/runs.csv
    local socket=$PWD/target/monitor.sock policy=$PWD/target/watched.toml
    mkdir -p "$out"
    # A process attaches itself if any of its locks may be an aware one.
    printf '%s\n' 'default = "futex"' '[[rule]]' 'symbol = "no_such_lock"' 'lock = "mcs-aware"' >"$policy"
    describe "$name" "$rounds" "$*" >"$out/meta.json"
    echo "round,case,time,switches" >"$csv"
    for ((round = 1; round <= rounds; round++)); do
        for asks in $(printf '%s\n' no yes | shuf --random-source=<(yes "$round")); do
            if [[ $way == watch ]]; then start_monitor "$socket" --watch; else start_monitor "$socket"; fi
            if [[ $asks == yes ]]; then start_asking "$socket"; else start_asking; fi
            for ((turn = 0; turn < turns; turn++)); do
                for case in $([[ $asks == yes ]] && echo asked watched || echo none attached); do
                    echo "$round,$case,$(timed "$(monitor_of "$case" "$socket")" "$policy" "$pattern" "$@")" >>"$csv"
                done
            done
            stop_background
        done
    done
    {
        echo "$ $*"
        for case in none attached asked watched; do of_rounds "$csv" "$case" "$rounds"; done
    } | tee "$out/table.txt"
}

# What LOCKWORK_MONITOR is in a case.
monitor_of() {
    case $1 in
        none | asked) echo 0 ;;
        *) echo "$2" ;;
    esac
}

# Where, when and how something was measured, other than by `lockwork compare`.
describe() {
    local name=$1 rounds=$2 command=$3
    printf '{\n  "benchmark": "%s",\n  "commit": "%s",\n  "date": "%s",\n  "host": "%s",\n  "command": "%s",\n  "rounds": %d\n}\n' \
        "$name" "$COMMIT" "$(date -u +%FT%TZ)" "$(uname -nrm), $(nproc) CPUs, $(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo)" \
        "$command" "$rounds"
}

# Runs the command and prints the time that it prints, and how many context switches the machine made meanwhile.
timed() {
    local monitor=$1 policy=$2 pattern=$3 before after value
    shift 3
    before=$(switches)
    value=$(env "LD_PRELOAD=$PWD/$BIN/liblockwork.so" "LOCKWORK_POLICY=$policy" LOCKWORK_CPU_CLOCKS=0 "LOCKWORK_MONITOR=$monitor" \
        "$@" | sed -n "s/$pattern//p")
    after=$(switches)
    [[ $value =~ ^[0-9.]+$ ]] || { echo "bench: one time was expected of: $*" >&2; return 1; }
    echo "$value,$((after - before))"
}

# What so many rounds in a file say of a case, against the case `none`, which is called by the last argument.
of_rounds() {
    local csv=$1 case=$2 rounds=$3 none=${4-that are neither} time ratio low high often cut
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
    printf '%-8s median %8.4g, of those of the same round %s %.4f (95%% interval %.4f to %.4f), %.0f switches\n' \
        "$case" "$time" "$none" "$ratio" "$low" "$high" "$often"
}

# Context switches of the whole machine since it started.
switches() {
    sed -n 's/^ctxt //p' /proc/stat
}

# Processes that run beside what is measured; ended by stop_background, at the latest when this script ends.
background=()
trap stop_background EXIT

# Builds the monitor, which a plain build leaves out. Whether it can run here.
has_monitor() {
    cargo build --quiet --release -p lockwork-monitor
    "$BIN/lockwork" monitor --check
}

# Starts a monitor that listens at this socket, with further options; waits until programs can connect.
start_monitor() {
    local socket=$1
    shift
    rm -f "$socket"
    "$BIN/lockwork" monitor --socket "$socket" "$@" >/dev/null &
    background+=($!)
    until [[ -S $socket ]]; do sleep 0.05; done
}

# Starts a process that asks the monitor at this socket a thousand times a second, and waits until it is told; without a socket
# one that wakes up as often and asks nobody.
start_asking() {
    exec 3< <(exec "$BIN/examples/asks" "$@")
    background+=($!)
    read -r -t 10 _ <&3 || { echo "bench: the monitor does not tell who runs" >&2; return 1; }
}

stop_background() {
    local process
    for process in "${background[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    background=()
}

# ---- The command line ----

case ${1-} in
    against)
        shift
        [[ $# -gt 0 ]] || { echo "usage: scripts/bench.sh against OLD.so [pairs|crowds|blocking]..." >&2; exit 2; }
        against "$@"
        ;;
    *)
        [[ $# -gt 0 ]] || set -- pairs every startup avl rocksdb crowds blocking queue rwlocks memory locks oversubscribed closures kernels sim
        for name in "$@"; do
            case $name in
                pairs | every | startup | avl | rocksdb | crowds | blocking | queue | rwlocks | memory | locks | oversubscribed | closures | kernels | sim | quick) "$name" ;;
                profile_costs | recorded_x265 | recorded_memcached | recorded_mariadb | monitor | monitor_costs | monitor_helps | monitor_crowd) "$name" ;;
                *) echo "bench: no benchmark is called $name; see the head of scripts/bench.sh" >&2; exit 2 ;;
            esac
        done
        ;;
esac
