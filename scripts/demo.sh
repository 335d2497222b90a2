#!/usr/bin/env bash
# The whole story of two programs: which lock hurts, which lock would help, and proof.
#
#   scripts/demo.sh [rocksdb|avl] [kyoto]
#
# RocksDB's block cache: `db_bench readrandom` with one cache shard, so that all threads meet at one mutex. Its locks are recorded,
# then tuned within a budget, and a page compares eight locks on it. Kyoto Cabinet's cache is behind a reader-writer lock; it is
# recorded and tuned. A program that is not there is left out; without db_bench the built-in AVL-tree workload stands for RocksDB.
#
# `auto` is the lock that serves where none is named. Needs a release build; `make demo` does that first. The same total work is
# done at each thread count, as much as takes glibc's lock about RUN_SECONDS here; a lock that needs longer than TIMEOUT for it is
# shown as collapsed. Takes four to five minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOCKS='pthread,auto,cst-mutex,ttas,ticket,mcs-spin,mcs-stp,gcr(mcs-stp)'
readonly THREADS=2,8,32
# Six rounds are the fewest that allow a verdict.
readonly RUNS=6 RUN_SECONDS=0.7 TIMEOUT=6
# The threads for which locks are recorded and tuned, and the time for that.
readonly MANY=32 BUDGET=50s
readonly KEYS=1000000
readonly DIRECTORY=target/demo
readonly LOCKWORK=${LOCKWORK_BIN:-target/release/lockwork}
AVL=$(dirname "$LOCKWORK")/lockwork-avl
readonly AVL

die() {
    echo "demo: $*" >&2
    exit 2
}

# Runs a command, its output in $DIRECTORY/log; shows the end of that when it fails or takes
# longer than a minute.
quietly() {
    if ! timeout -s KILL 60 "$@" >"$DIRECTORY/log" 2>&1; then
        tail -n 20 "$DIRECTORY/log" >&2
        die "failed: $*"
    fi
}

# Prints the part of $1 operations for each of $2 threads, of which `lockwork compare` may be to choose the number.
each() {
    if [[ $2 == '{threads}' ]]; then echo "{$1/threads}"; else echo $(($1 / $2)); fi
}

# The command that does $1 operations with $2 threads, in the array `command`.
rocksdb_command() {
    command=(db_bench "--db=$DIRECTORY/db" --use_existing_db=1 --benchmarks=readrandom
        "--threads=$2" "--num=$KEYS" "--reads=$(each "$1" "$2")" --seed=1 --histogram=1
        --cache_size=8388608 --cache_numshardbits=0 --compression_type=none)
}

avl_command() {
    command=("$AVL" "--threads=$2" "--ops=$1")
}

kyoto_command() {
    command=(kccachetest wicked -th "$2" -it 1 "$(each "$1" "$2")")
}

# Prints how many operations glibc's lock does in RUN_SECONDS, judged by the rate that the log gives, or stdin.
calibrated() {
    sed -En "s|$1|\1|p" "$DIRECTORY/log" | tail -n 1 | as_work
}

as_work() {
    awk -v seconds=$RUN_SECONDS '$1 > 0 { n = int($1 * seconds / 10000); print (n > 1 ? n : 1) * 10000 }'
}

title() {
    printf '\n== %s\n' "$*"
}

# Shows which lock of the program hurts, and looks for a better one. The arguments are the name of the program, the function that
# sets `command`, how many operations it is to do in all, and the metrics, the first of which is to get better.
story() {
    local metrics=() metric
    for metric in "${@:4}"; do metrics+=(--metric "$metric"); done
    local recorded=$DIRECTORY/$1.profile policy=$DIRECTORY/$1.policy.toml
    "$2" "$3" "$MANY"
    title "Which lock of $1 hurts?  lockwork profile -- ${command[*]}"
    quietly "$LOCKWORK" profile -o "$recorded" -- "${command[@]}"
    "$LOCKWORK" profile report "$recorded"
    "$LOCKWORK" profile report "$recorded" --format html >"$DIRECTORY/$1.html"
    title "Which lock would help, and does it?  lockwork tune --profile $recorded -- ..."
    rm -f "$policy"
    "$LOCKWORK" tune --profile "$recorded" --budget "$BUDGET" --sites 1 --candidates 6 --runs "$RUNS" --timeout "$TIMEOUT" \
        "${metrics[@]}" --seed 1 -o "$policy" -- "${command[@]}"
    echo "Who waits for whom: $DIRECTORY/$1.html"
}

# Compares the locks on `command`; the arguments are regular expressions for throughput and P99.
compare() {
    title "All at once, at $THREADS threads: lockwork compare --locks '$LOCKS' -- ..."
    "$LOCKWORK" compare --locks "$LOCKS" --threads "$THREADS" --runs "$RUNS" --warmup 1 \
        --timeout "$TIMEOUT" --metric "+ops/sec=$1" --metric "-P99 µs=$2" --seed 1 \
        --out "$DIRECTORY/report" -- "${command[@]}"
}

demo_rocksdb() {
    echo "Filling a RocksDB database with $KEYS keys in $DIRECTORY/db ..."
    rm -rf "$DIRECTORY/db"
    quietly db_bench "--db=$DIRECTORY/db" --benchmarks=fillseq "--num=$KEYS" --compression_type=none
    local rate='^readrandom .* ([0-9]+) ops/sec .*'
    rocksdb_command 80000 8
    quietly "${command[@]}"
    local total
    total=$(calibrated "$rate")
    story rocksdb rocksdb_command "${total:?no rate in $DIRECTORY/log}" '-P99 µs=P99: ([0-9.]+)' \
        '+ops/sec=readrandom .* ([0-9]+) ops/sec'
    rocksdb_command "$total" '{threads}'
    compare 'readrandom .* ([0-9]+) ops/sec' 'P99: ([0-9.]+)'
}

demo_avl() {
    avl_command 500000 8
    quietly "${command[@]}"
    local total
    total=$(calibrated '^ops/sec: ([0-9]+)')
    story avl avl_command "${total:?no rate in $DIRECTORY/log}" '-P99 µs=P99: ([0-9.]+)' '+ops/sec=ops/sec: ([0-9]+)'
    avl_command "$total" '{threads}'
    compare 'ops/sec: ([0-9]+)' 'P99: ([0-9.]+)'
}

demo_kyoto() {
    local operations=20000 total
    kyoto_command "$operations" 8
    quietly "${command[@]}"
    total=$(sed -En 's|^time: ([0-9.]+)|\1|p' "$DIRECTORY/log" | awk -v n=$operations '$1 > 0 { print n / $1 }' | as_work)
    story kyoto kyoto_command "${total:?no time in $DIRECTORY/log}" '-seconds=time: ([0-9.]+)'
}

[[ -x $LOCKWORK && -x $AVL ]] || die "$LOCKWORK or $AVL is missing; run: cargo build --release"
mkdir -p "$DIRECTORY"
if (($# == 0)); then
    if type -P db_bench >/dev/null; then set -- rocksdb; else set -- avl; fi
    if type -P kccachetest >/dev/null; then set -- kyoto "$@"; fi
fi
for workload; do
    case "$workload" in
        rocksdb | avl | kyoto) "demo_$workload" ;;
        *) die "usage: scripts/demo.sh [rocksdb|avl] [kyoto]" ;;
    esac
done
