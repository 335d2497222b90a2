#!/usr/bin/env bash
# Compares locks on RocksDB's block cache: `db_bench readrandom` with one cache shard, so that all
# threads meet at one mutex. Without db_bench it compares them on the built-in AVL-tree workload.
#
#   scripts/demo.sh [rocksdb|avl]
#
# cst-mutex is the lock that serves where none is named. Needs a release build; `make demo` does that first. The same total work is done at each thread
# count, as much as takes glibc's mutex about RUN_SECONDS here; a lock that needs longer than
# TIMEOUT for it is shown as collapsed. Takes three to four minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOCKS='pthread,cst-mutex,ttas,ticket,mcs-spin,mcs-stp,gcr(ticket),gcr(mcs-stp)'
readonly THREADS=2,8,32
# Six rounds are the fewest that allow a verdict.
readonly RUNS=6 RUN_SECONDS=0.7 TIMEOUT=6
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

# The command that does $1 operations with $2 threads, in the array `command`.
rocksdb_command() {
    command=(db_bench "--db=$DIRECTORY/db" --use_existing_db=1 --benchmarks=readrandom
        "--threads=$2" "--num=$KEYS" "--reads=$1" --seed=1 --histogram=1
        --cache_size=8388608 --cache_numshardbits=0 --compression_type=none)
}

avl_command() {
    command=("$AVL" "--threads=$2" "--ops=$1")
}

# Prints how many operations glibc's mutex does in RUN_SECONDS, judged by the rate in the log.
calibrated() {
    sed -En "s|$1|\1|p" "$DIRECTORY/log" | tail -n 1 |
        awk -v seconds=$RUN_SECONDS '$1 > 0 { n = int($1 * seconds / 10000); print (n > 1 ? n : 1) * 10000 }'
}

# Compares the locks on `command`; the arguments are regular expressions for throughput and P99.
compare() {
    "$LOCKWORK" compare --locks "$LOCKS" --threads "$THREADS" --runs "$RUNS" --warmup 1 \
        --timeout "$TIMEOUT" --metric "+ops/sec=$1" --metric "-P99 µs=$2" --seed 1 \
        --out "$DIRECTORY/report" -- "${command[@]}"
}

demo_rocksdb() {
    echo "Filling a RocksDB database with $KEYS keys in $DIRECTORY/db ..."
    rm -rf "$DIRECTORY/db"
    quietly db_bench "--db=$DIRECTORY/db" --benchmarks=fillseq "--num=$KEYS" --compression_type=none
    local rate='^readrandom .* ([0-9]+) ops/sec .*'
    rocksdb_command 10000 8
    quietly "${command[@]}"
    local total
    total=$(calibrated "$rate")
    rocksdb_command "{${total:?no rate in $DIRECTORY/log}/threads}" '{threads}'
    compare 'readrandom .* ([0-9]+) ops/sec' 'P99: ([0-9.]+)'
}

demo_avl() {
    avl_command 500000 8
    quietly "${command[@]}"
    local total
    total=$(calibrated '^ops/sec: ([0-9]+)')
    avl_command "${total:?no rate in $DIRECTORY/log}" '{threads}'
    compare 'ops/sec: ([0-9]+)' 'P99: ([0-9.]+)'
}

[[ -x $LOCKWORK && -x $AVL ]] || die "$LOCKWORK or $AVL is missing; run: cargo build --release"
mkdir -p "$DIRECTORY"
workload=${1-}
if [[ -z $workload ]]; then
    workload=avl
    type -P db_bench >/dev/null && workload=rocksdb
fi
case "$workload" in
    rocksdb) demo_rocksdb ;;
    avl) demo_avl ;;
    *) die "usage: scripts/demo.sh [rocksdb|avl]" ;;
esac
