#!/usr/bin/env bash
# A Slurm cluster of several virtual nodes on this host, on the loopback, for tests. Everything it makes is in DIR.
#
#   scripts/slurm.sh start DIR [NODES]     then: export SLURM_CONF=DIR/slurm.conf
#   scripts/slurm.sh kill-node DIR NODE    SIGKILL for a node, n1 to nNODES: its daemon, and all that it runs
#   scripts/slurm.sh stop DIR
#
# Needs Debian's packages slurm-wlm and munge, and root, as their daemons do here. Exit status 3: not to be had.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

missing() {
    echo "slurm.sh: $*" >&2
    exit 3
}

# A port of the loopback that nobody listens to, from the first argument on.
free_port() {
    local port=$1
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
    echo "$port"
}

start() {
    local dir=$1 nodes=${2:-4} host
    for program in munged slurmctld slurmd sbatch srun; do
        type -P "$program" >/dev/null || missing "no $program; run: apt-get install slurm-wlm munge"
    done
    [[ $(id -u) -eq 0 ]] || missing "munge and slurmd want to be root"
    mkdir -p "$dir/state"
    dir=$(cd "$dir" && pwd)
    host=$(hostname -s)
    head -c 128 /dev/urandom >"$dir/munge.key"
    chmod 400 "$dir/munge.key"
    munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
        --log-file="$dir/munged.log" --seed-file="$dir/munge.seed" --num-threads=1
    local base=$((20000 + RANDOM % 20000)) controller daemons
    controller=$(free_port "$base")
    daemons=$(free_port $((controller + 1)))
    cat >"$dir/slurm.conf" <<CONF
ClusterName=lockwork
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
SlurmctldParameters=enable_configless
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdTimeout=3
SlurmctldTimeout=5
InactiveLimit=0
KillWait=2
MinJobAge=10
PropagateResourceLimits=NONE
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$daemons-$((daemons + nodes - 1))] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    export SLURM_CONF=$dir/slurm.conf
    slurmctld -f "$SLURM_CONF"
    local node
    for ((node = 1; node <= nodes; node++)); do
        mkdir -p "$dir/spool-n$node"
        slurmd -f "$SLURM_CONF" -N "n$node"
    done
    for ((node = 0; node < 150; node++)); do
        [[ $(sinfo --noheader --Node --states=idle --format=%N 2>/dev/null | grep -c .) -ge $nodes ]] && return
        sleep 0.2
    done
    echo "slurm.sh: the nodes did not come up; see $dir/*.log" >&2
    stop "$dir"
    exit 1
}

# A process and all below it, the lowest first.
descendants() {
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do descendants "$child"; done
    echo "$1"
}

kill_tree() {
    local pid
    [[ -s $1 ]] || return 0
    pid=$(cat "$1")
    # The daemon first: it must see nothing of the end of what it runs.
    local all
    all=$(descendants "$pid")
    kill -KILL "$pid" 2>/dev/null || true
    for pid in $all $(jobs_of "$2" "$3"); do kill -KILL "$pid" 2>/dev/null || true; done
    rm -f "$1"
}

# The processes that jobs of this cluster (and node, if named) run, by their environment.
jobs_of() {
    local environ
    for environ in /proc/[0-9]*/environ; do
        tr '\0' '\n' 2>/dev/null <"$environ" | grep -qx "SLURM_CONF=$1/slurm.conf" || continue
        [[ -z $2 ]] || tr '\0' '\n' 2>/dev/null <"$environ" | grep -qx "SLURMD_NODENAME=$2" || continue
        tr '\0' '\n' 2>/dev/null <"$environ" | grep -q "^SLURM_JOB_ID=" || continue
        environ=${environ#/proc/}
        echo "${environ%/environ}"
    done
}

stop() {
    local dir file
    dir=$(cd "$1" && pwd)
    for file in "$dir"/slurmd-*.pid; do kill_tree "$file" "$dir" ""; done
    for file in slurmctld munged; do
        [[ ! -s $dir/$file.pid ]] || kill -KILL "$(cat "$dir/$file.pid")" 2>/dev/null || true
    done
}

case "${1-}" in
    start) start "${@:2}" ;;
    kill-node) kill_tree "$(cd "$2" && pwd)/slurmd-$3.pid" "$(cd "$2" && pwd)" "$3" ;;
    stop) stop "$2" ;;
    *) echo "usage: scripts/slurm.sh start DIR [NODES] | kill-node DIR NODE | stop DIR" >&2; exit 2 ;;
esac
