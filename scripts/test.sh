#!/usr/bin/env bash
# Runs all tests. Expects a release build and the packages of `scripts/setup.sh test`; `make test` sees to both.
#
#   scripts/test.sh [native|aarch64|lint]...     (default: native)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly AARCH64=aarch64-unknown-linux-gnu

# The workspace's tests: units, models, mutants, conformance, POSIX suite, applications, command.
native() {
    cargo test --workspace --no-fail-fast
}

# The same lock code on a weakly ordered machine, as far as an emulator shows it.
aarch64() {
    if ! rustup target list --installed | grep -qx "$AARCH64"; then
        echo "test: SKIPPED aarch64: no Rust target; run: rustup target add $AARCH64" >&2
        return
    fi
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
        cargo test --target "$AARCH64" -p lockwork-testkit --test conformance
}

lint() {
    cargo fmt --all --check
    cargo clippy --quiet --workspace --all-targets -- --deny warnings
}

for part in "${@:-native}"; do
    for name in $part; do
        "$name"
    done
done
