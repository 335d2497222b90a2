#!/usr/bin/env bash
# Runs all tests. Expects the packages of `scripts/setup.sh test`; `make test` sees to them.
#
#   scripts/test.sh [all|native|aarch64|miri|lint]...     (default: all, which is native and aarch64)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly AARCH64=aarch64-unknown-linux-gnu
readonly QEMU=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${QEMU[*]}"

# From nothing, as here, a build takes a third longer if it also notes down what the next one may reuse.
export CARGO_INCREMENTAL=0

# What all parts print.
readonly LOG=$PWD/target/test.log

# Where explorations of models write, and what runs beside the native tests leaves the number of its process group.
readonly EARLY_MODELS=$PWD/target/models

# Both, the emulated tests beside those native ones that wait for others, or sleep.
all() {
    build_native
    begin_models
    build_aarch64
    beside emulated emulate
    local emulated=$! status=0
    run_native || status=1
    touch "$EARLY_MODELS/native-ended"
    wait "$emulated" || true
    if ! grep -qx 0 "$EARLY_MODELS/emulated.status"; then
        status=1
        echo "test: aarch64 FAILED" >>target/aarch64.log
    fi
    cat target/aarch64.log
    return $status
}

# The emulated tests take what explorations leave, and begin with the second half of the tests in any case. Before it are tests of what
# is measured, beside which nothing else runs (`scripts/harness.sh`): for the shorter ones they stand still.
emulate() {
    local status=0
    until [[ -e $EARLY_MODELS/native-ended || -e $EARLY_MODELS/tune.measured && ! -e $EARLY_MODELS/explored.group ]] ||
        grep -q '^     Running tests/convert.rs' "$LOG"; do
        kill -0 $$ || return # Somebody has ended this script.
        sleep 0.5
    done
    (set -e; run_aarch64) >target/aarch64.log 2>&1 || status=$?
    echo "$status" >"$EARLY_MODELS/emulated.status"
}

# beside NAME COMMAND...: runs a command with a process group of its own, so that all of it can be stopped or ended at once; its number is in
# NAME.group until the command is over.
beside() {
    local group=$EARLY_MODELS/$1.group
    shift
    set -m
    {
        # The file is written behind this process's back.
        until [[ -s $group ]]; do sleep 0.1; done
        "$@"
        rm "$group"
    } &
    set +m
    echo $! >"$group"
}

end_what_is_beside() {
    local group
    for group in "$EARLY_MODELS"/*.group; do
        [[ ! -e $group ]] || kill -- "-$(<"$group")" 2>/dev/null || true
    done
}

# The workspace's tests: units, models, mutants, conformance, POSIX suite, applications, command.
native() {
    build_native
    begin_models
    run_native
}

build_native() {
    # The libraries that programs of the tests run under. Optimising each as a whole keeps one CPU busy only.
    cargo build --release -p lockwork-preload -p lockwork-capi &
    local libraries=$!
    unwinding test --workspace --no-run
    wait "$libraries"
}

# Cargo runs every harness in turn, but the explorations of models have begun by then.
run_native() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
    export EARLY_MODELS "CARGO_TARGET_${host}_RUNNER=$PWD/scripts/harness.sh"
    local status=0
    # While the compiler is still in memory. After the others the system has forgotten it, and reads it for half a minute.
    unwinding test --workspace --no-fail-fast --doc || status=1
    unwinding test --workspace --no-fail-fast --tests || status=1
    return $status
}

# Half of the other tests wait or sleep, and explorations take nothing but CPU time: they get what is left over, and
# `scripts/harness.sh` asks for what they said when their turn has come.
begin_models() {
    local -a programs
    rm -rf "$EARLY_MODELS"
    mkdir -p "$EARLY_MODELS"
    trap end_what_is_beside EXIT
    unwinding test --workspace --no-run --message-format=json 2>"$EARLY_MODELS/cargo.log" |
        sed -nE 's/.*"executable":"([^"]*\/(loom|rw_loom|rw_shuttle|shuttle)-[^"]*)".*/\1/p' | sort >"$EARLY_MODELS/programs"
    mapfile -t programs <"$EARLY_MODELS/programs"
    if ((${#programs[@]} != 4)); then
        cat "$EARLY_MODELS/cargo.log" >&2
        echo "test: four programs explore models, not ${#programs[@]}: ${programs[*]}" >&2
        return 1
    fi
    beside explored explore "${programs[@]}"
}

explore() {
    local program name status
    renice -n 19 "$BASHPID" >/dev/null || true
    cd crates/testkit
    for program in "$@"; do
        name=${program##*/}
        status=0
        "$program" >"$EARLY_MODELS/$name.log" 2>&1 || status=$?
        echo "$status" >"$EARLY_MODELS/$name.new"
        mv "$EARLY_MODELS/$name.new" "$EARLY_MODELS/$name.status"
    done
}

# Test harnesses unwind. Where programs abort, as `panic` in Cargo.toml says for the sake of liblockwork.so, all they share with
# tests is compiled twice.
unwinding() { CARGO_PROFILE_DEV_PANIC=unwind cargo "$@"; }

# The same lock code for a weakly ordered machine, as far as an emulator shows it, and the library under programs.
aarch64() {
    build_aarch64
    run_aarch64
}

has_aarch64() {
    rustup target list --installed | grep -qx "$AARCH64" && return
    echo "SKIPPED: all of aarch64: no Rust target; run: rustup target add $AARCH64" >&2
    return 1
}

build_aarch64() {
    has_aarch64 2>/dev/null || return 0
    cargo test --target "$AARCH64" -p lockwork-testkit --no-default-features --test conformance --no-run
    cargo build --target "$AARCH64" -p lockwork-preload
}

run_aarch64() {
    has_aarch64 || return 0
    # The emulator allocates by GLib's slices, whose lock another of its threads may have at a fork: the child waits for it for ever.
    export G_SLICE=always-malloc
    # Every algorithm, spinning before it parks; the other ways of waiting, which have nothing of their own for this machine, with CLH
    # only.
    emulated_conformance --skip=-spin:: --skip=-park:: --skip=-yield:: --skip=-aware::
    emulated_conformance clh
    local program failed=0
    for program in mutex_kinds mutex_timed cond_timed rwlock_basic c11; do
        aarch64_posix "$program" || failed=1
    done
    return $failed
}

emulated_conformance() {
    cargo test --target "$AARCH64" -p lockwork-testkit --no-default-features --test conformance -- "$@"
}

# Runs the cases of a POSIX suite program one by one, since an emulated program cannot start itself, with and without the
# library, and compares what they print. The lock must have served some of them.
aarch64_posix() {
    local out=target/aarch64-posix lock=mcs-stp name passed=0 failed=0 served=0
    local library=$PWD/target/$AARCH64/debug/liblockwork.so
    mkdir -p "$out"
    aarch64-linux-gnu-gcc -std=gnu11 -O2 -w -pthread -o "$out/$1" "crates/testkit/posix/$1.c" crates/testkit/posix/suite.c -ldl
    local cases
    cases=$("${QEMU[@]}" "$out/$1" --list)
    for name in $cases; do
        if aarch64_case "$1" "$name"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
        grep -Eq "^lockwork:.* served .*(mutexes by $lock|rwlocks)" "$out/stderr" && served=1
    done
    if [[ $served == 0 ]]; then
        echo "test: aarch64: $lock served nothing in $1" >&2
        failed=$((failed + 1))
    fi
    echo "test result: $([[ $failed == 0 ]] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored (aarch64: cases of $1 under $lock)"
    [[ $failed == 0 ]]
}

# One case; what the library says is in `stderr`.
aarch64_case() {
    local failed=0
    timeout -s KILL 60 "${QEMU[@]}" "$out/$1" "$2" >"$out/glibc" 2>/dev/null || failed=1
    timeout -s KILL 60 "${QEMU[@]}" -E "LD_PRELOAD=$library" -E "LOCKWORK_LOCK=$lock" -E LOCKWORK_VERBOSE=1 \
        "$out/$1" "$2" >"$out/ours" 2>"$out/stderr" || failed=1
    if ! cmp -s "$out/glibc" "$out/ours"; then
        echo "test: aarch64: $1 $2 under $lock differs from glibc:" >&2
        diff "$out/glibc" "$out/ours" >&2 || true
        failed=1
    fi
    return $failed
}

# The same lock code in Miri, which sees every access, lifetime and race. More seeds, more interleavings: MIRI_SEEDS=0..8.
miri() {
    MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-many-seeds=${MIRI_SEEDS:-0..1}" \
        cargo +nightly miri test -p lockwork-testkit --no-default-features --test miri
}

lint() {
    cargo fmt --all --check
    cargo clippy --quiet --workspace --all-targets -- --deny warnings
    cargo clippy --quiet -p lockwork -p lockwork-capi --features lockwork/profile,lockwork-capi/profile -- --deny warnings
}

# Harnesses that ended without a result, as by a watchdog, each with the last that was heard of it.
died() {
    awk '
        /^(     Running|   Doc-tests) / { tell(); name = $0; lines = 0; next }
        /^test result: / { name = "" }
        name { last[lines++ % 60] = $0 }
        function tell(   i) {
            if (!name) return
            print "test: no result:" name
            for (i = lines > 60 ? lines - 60 : 0; i < lines; i++) print last[i % 60]
        }
        /^test: / { tell(); name = "" }' "$LOG" >&2
    grep -E '^error: (test|doctest) failed|^  process didn.t exit successfully' "$LOG" >&2 || true
}

# What failed, once more, and one line of how many tests passed, failed and were skipped, with the reasons.
summary() {
    # Each harness says why first, then lists the names of what failed.
    awk '/^failures:$/ { inside = 1; lines = 0 } inside && lines++ < 100 { print } /^test result/ { inside = 0 }' "$LOG" >&2
    grep -E '^test .* FAILED$' "$LOG" >&2 || true
    died
    awk '
        /^test result: / { passed += $4; failed += $6; inside += $8 }
        match($0, /SKIPPED: /) {
            why = substr($0, RSTART + RLENGTH)
            if (!times[why]++) reasons[++count] = why
            skipped++
        }
        END {
            printf "test: %d passed, %d failed, %d skipped (%d more ran inside others, on topologies of their own)\n",
                passed, failed, skipped, inside
            for (i = 1; i <= count; i++)
                printf "test: skipped: %s%s\n", reasons[i], (times[reasons[i]] > 1 ? " (" times[reasons[i]] " times)" : "")
        }' "$LOG"
}

mkdir -p target
: >"$LOG"
status=0
for name in ${*:-all}; do
    # Not in a condition: there `set -e` would have no effect on what a part runs.
    set +e
    (set -e; "$name") 2>&1 | tee -a "$LOG"
    [[ ${PIPESTATUS[0]} == 0 ]] || { status=1; echo "test: $name FAILED" | tee -a "$LOG"; }
    set -e
done
summary
exit $status
