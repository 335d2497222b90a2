#!/usr/bin/env bash
# Simulated: what GCR, `cst-mutex` and `auto` do of the futex mutex where threads are twice as many as CPUs, pinned and not, on four
# machines and seven workloads. Needs no idle machine, and no preload.
#
#   scripts/simulated.sh [SEEDS] [MACHINE,…] [WORKLOAD,…]     (default: 5 seeds, all machines, all workloads)
#
# Writes results/<date>-simulated/twice/{table.txt,runs.csv,meta.json}. The table has, for every cell, the median over the seeds
# of the ratio to `futex` with the same seed, and the lowest; a cell whose median is under the bound of its lock is marked.
# BOUNDS: 0.95 for `cst-mutex` and `auto`, 0.5 for every other. Ends with status 1 if a cell is marked.
# SIM_LOCKS: other locks, `futex` among them. SIM_THREADS: other numbers of threads. SIM_RUNS: a runs.csv, perhaps of several runs, of
# which the table is made without simulating; SIM_COMMIT then says which commit that was of.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

readonly SEEDS=${1:-5}
readonly RUNS=${SIM_RUNS:-}
[[ -z $RUNS || -n ${SIM_COMMIT:-} ]] || { echo "simulated.sh: SIM_COMMIT has to say of which commit $RUNS is" >&2; exit 2; }
COMMIT=${SIM_COMMIT:-$(git rev-parse --short=12 HEAD)}
readonly COMMIT
COMMAND="${SIM_LOCKS:+SIM_LOCKS='$SIM_LOCKS' }${SIM_THREADS:+SIM_THREADS=$SIM_THREADS }scripts/simulated.sh $*"
readonly COMMAND
readonly MACHINES=${2:-a-64,e7-8870-v2,2s-64,chiplet-128}
readonly WORKLOADS=${3:-d300,d5000x3,d50000,avl,hash,sections,phases}
readonly LOCKS=${SIM_LOCKS:-"futex,auto,cst-mutex,gcr(mcs-stp),gcr(mcs-spin),gcr(ticket),gcr(futex),gcr(mcs-aware),gcr(clh-stp),gcr(ttas),gcr(cst-mutex),gcr-numa(mcs-stp)"}
readonly LOCKWORK=${LOCKWORK:-target/release/lockwork}
OUT=results/$(date +%F)-simulated/twice
readonly OUT
SCRATCH=$(mktemp -d)
readonly SCRATCH
trap 'rm -rf "$SCRATCH"' EXIT

options() {
    case $1 in
        d300) echo --workload micro --delay 300 ;;
        d5000x3) echo --workload micro --delay 5000 --lines 3 ;;
        d50000) echo --workload micro --delay 50000 ;;
        avl | hash | sections | phases) echo --workload "$1" ;;
        *) echo "simulated.sh: no workload $1" >&2 && return 2 ;;
    esac
}

# Twice the CPUs of a machine, as `lockwork sim machines` describes it.
threads() {
    "$LOCKWORK" sim machines --json | jq -r --arg name "$1" '.[] | select(.name == $name)
        | .nodes * ."llcs-per-node" * ."cores-per-llc" * ."threads-per-core" * 2'
}

mkdir -p "$OUT"
simulate() {
    echo "machine,workload,pinned,threads,seed,lock,outcome,throughput" >"$SCRATCH/runs.csv"
    for machine in ${MACHINES//,/ }; do
        numbers=${SIM_THREADS:-$(threads "$machine")}
        for workload in ${WORKLOADS//,/ }; do
            read -ra workload_options <<<"$(options "$workload")"
            for pinned in true false; do
                placement=()
                [[ $pinned == true ]] || placement=(--unpinned)
                for threads in ${numbers//,/ }; do
                    "$LOCKWORK" sim --machine "$machine" --threads "$threads" --locks "$LOCKS" --seeds "$SEEDS" --no-report --json \
                        "${workload_options[@]}" "${placement[@]}" 2>/dev/null |
                        jq -r --arg cell "$machine,$workload,$pinned,$threads" '.[0].runs[]
                            | "\($cell),\(.round + 1),\"\(.lock)\",\(.outcome),\(.values.throughput // 0)"' >>"$SCRATCH/runs.csv"
                done
            done
        done
    done
}
if [[ $RUNS ]]; then cp "$RUNS" "$SCRATCH/runs.csv"; else simulate; fi
cp "$SCRATCH/runs.csv" "$OUT/runs.csv"
jq -n --arg commit "$COMMIT" --arg command "$COMMAND" --arg date "$(date -u +%FT%TZ)" --argjson seeds "$SEEDS" \
    --arg machines "$MACHINES" --arg workloads "$WORKLOADS" --arg locks "$LOCKS" \
    '{simulated: true, commit: $commit, date: $date, command: $command, seeds: $seeds, baseline: "futex",
      machines: ($machines / ","), workloads: ($workloads / ","), locks: ($locks / ",")}' >"$OUT/meta.json"

jq -Rsr '
    def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
    def round2: . * 100 | round / 100;
    split("\n")[1:] | map(select(. != "") | capture(
        "^(?<machine>[^,]+),(?<workload>[^,]+),(?<pinned>[^,]+),(?<threads>[^,]+),(?<seed>[^,]+),\"(?<lock>[^\"]+)\",(?<outcome>[^,]+),(?<value>.+)$"))
    | group_by([.machine, .workload, .pinned, (.threads | tonumber)])[]
    | . as $cell | ($cell | map(select(.lock == "futex")) | INDEX(.seed)) as $base
    | ($cell | map(select(.lock != "futex")) | group_by(.lock)[])
    | . as $runs | [.[] | (.value | tonumber) / ([($base[.seed].value | tonumber), 1e-9] | max)]
    | (if $runs[0].lock == "cst-mutex" or $runs[0].lock == "auto" then 0.95 else 0.5 end) as $bound
    | [$runs[0].machine, $runs[0].workload, (if $runs[0].pinned == "true" then "pinned" else "moving" end), $runs[0].threads,
       $runs[0].lock, ($runs | length), (median | round2), (min | round2), (if median < $bound then "under \($bound)" else "" end)] | @tsv
' "$OUT/runs.csv" >"$SCRATCH/cells.tsv"
{
    echo "Simulated, not measured: throughput as a ratio to futex with the same seed, commit $COMMIT"
    echo "\$ $COMMAND"
    { printf 'machine\tworkload\tthreads are\tthreads\tlock\tseeds\tmedian\tlowest\tnote\n' && cat "$SCRATCH/cells.tsv"; } | column -t -s $'\t'
    echo "$(grep -c . "$SCRATCH/cells.tsv") cells, $(grep -c 'under' "$SCRATCH/cells.tsv" || true) of them under their bound"
} >"$OUT/table.txt"
cat "$OUT/table.txt"
! grep -q under "$SCRATCH/cells.tsv"
