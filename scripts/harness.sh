#!/usr/bin/env bash
# How `scripts/test.sh` has cargo run what it has built:
#
#   scripts/harness.sh PROGRAM [ARGUMENT]...
#
# Explorations of models take CPU time and nothing else. `scripts/test.sh` has begun them, and this script waits for their end
# and prints what they printed. While a harness runs that measures, or asks who is preempted, they stand still, and so do emulated tests.
set -euo pipefail

# Where what runs beside writes; `scripts/test.sh` has made it.
readonly EARLY=${EARLY_MODELS:?is set by scripts/test.sh}
unset EARLY_MODELS
# Tests that call cargo have no use for this script.
for variable in "${!CARGO_TARGET_@}"; do
    [[ $variable != *_RUNNER ]] || unset "$variable"
done

# Sends what runs beside a signal, if it still goes on: process groups.
beside() {
    local group
    for group in "$EARLY"/*.group; do
        [[ ! -s $group ]] || kill "-$1" -- "-$(<"$group")" 2>/dev/null || true
    done
}

# A harness that has been begun with the same arguments, which are none.
if (($# == 1)) && grep -qxF "$1" "$EARLY/programs"; then
    name=${1##*/}
    beside CONT
    # The group's file goes last, and what they said is there by then.
    until [[ -e $EARLY/$name.status ]]; do
        [[ -e $EARLY/explored.group ]] || [[ -e $EARLY/$name.status ]] || { echo "test: nobody explores $name" >&2; exit 1; }
        sleep 0.2
    done
    cat "$EARLY/$name.log"
    exit "$(<"$EARLY/$name.status")"
fi

name=${1##*/}
case ${name%-*} in
    monitor | profile | transform | truth | tune)
        trap 'beside CONT; touch "$EARLY/${name%-*}.measured"' EXIT
        beside STOP
        "$@"
        ;;
    *) exec "$@" ;;
esac
