#!/usr/bin/env bash
# Runs all tests. Expects a release build and the packages of `scripts/setup.sh test`; `make test` sees to both.
#
#   scripts/test.sh [native|aarch64|miri|lint]...     (default: native aarch64)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly AARCH64=aarch64-unknown-linux-gnu
readonly QEMU=(qemu-aarch64 -L /usr/aarch64-linux-gnu)

# From nothing, as here, a build takes a third longer if it also notes down what the next one may reuse.
export CARGO_INCREMENTAL=0

# The workspace's tests: units, models, mutants, conformance, POSIX suite, applications, command.
native() {
    local log=target/test.log
    mkdir -p target
    # Test harnesses unwind. Where programs abort, as `panic` in Cargo.toml says for the sake of liblockwork.so, all they share
    # with tests is compiled twice.
    CARGO_PROFILE_DEV_PANIC=unwind cargo test --workspace --no-fail-fast 2>&1 | tee "$log" && return
    echo "test: what failed, once more (all of it is in $log):" >&2
    # Each harness says why first, then lists the names of what failed.
    awk '/^failures:$/ { inside = 1; lines = 0 } inside && lines++ < 100 { print } /^test result/ { inside = 0 }' "$log" >&2
    grep -E '^test .* FAILED$' "$log" >&2 || true
    return 1
}

# The same lock code for a weakly ordered machine, as far as an emulator shows it, and the library under programs.
aarch64() {
    if ! rustup target list --installed | grep -qx "$AARCH64"; then
        echo "test: SKIPPED aarch64: no Rust target; run: rustup target add $AARCH64" >&2
        return
    fi
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${QEMU[*]}"
    cargo test --target "$AARCH64" -p lockwork-testkit --no-default-features --test conformance
    cargo build --target "$AARCH64" -p lockwork-preload
    local program failed=0
    for program in mutex_kinds mutex_timed cond_timed rwlock_basic c11; do
        aarch64_posix "$program" || failed=1
    done
    return $failed
}

# Runs the cases of a POSIX suite program one by one, since an emulated program cannot start itself, with and without the
# library, and compares what they print.
aarch64_posix() {
    local out=target/aarch64-posix lock=mcs-stp name failed=0 served=0
    local library=$PWD/target/$AARCH64/debug/liblockwork.so
    mkdir -p "$out"
    aarch64-linux-gnu-gcc -std=gnu11 -O2 -w -pthread -o "$out/$1" "crates/testkit/posix/$1.c" crates/testkit/posix/suite.c -ldl
    local cases
    cases=$("${QEMU[@]}" "$out/$1" --list)
    for name in $cases; do
        timeout -s KILL 60 "${QEMU[@]}" "$out/$1" "$name" >"$out/glibc" 2>/dev/null || failed=1
        timeout -s KILL 60 "${QEMU[@]}" -E "LD_PRELOAD=$library" -E "LOCKWORK_LOCK=$lock" -E LOCKWORK_VERBOSE=1 \
            "$out/$1" "$name" >"$out/ours" 2>"$out/stderr" || failed=1
        grep -q '^lockwork:.* served' "$out/stderr" && served=1
        if ! cmp -s "$out/glibc" "$out/ours"; then
            echo "test: aarch64: $1 $name under $lock differs from glibc:" >&2
            diff "$out/glibc" "$out/ours" >&2 || true
            failed=1
        fi
    done
    [[ $served == 1 ]] || failed=1
    echo "test aarch64 $1 under $lock: $(wc -w <<<"$cases") cases, $([[ $failed == 0 ]] && echo ok || echo FAILED)"
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
}

for part in "${@:-native aarch64}"; do
    for name in $part; do
        "$name"
    done
done
