//! Compressors with threads: their locks are no bottleneck, so nothing at all may change.

use crate::programs::{program, put_under, succeed, succeed_under};
use crate::under_each_lock;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Text that compresses, of a length that gives every thread several blocks.
static INPUT: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("input");
    let text: String =
        (0..400_000u64).map(|n| format!("{:x} ", n.wrapping_mul(0x9e37_79b9) % 99_991)).collect();
    fs::write(&path, text).unwrap();
    (directory, path)
});

fn xz(input: &Path) -> Command {
    let mut command = program("xz");
    command.args(["-1", "-T4", "--block-size=131072", "--stdout"]).arg(input);
    command
}

fn zstd(input: &Path) -> Command {
    let mut command = program("zstd");
    command.args(["-3", "-T4", "-B524288", "--stdout"]).arg(input);
    command
}

fn xz_compresses_the_same(lock: &str) {
    let mut command = xz(&INPUT.1);
    // Not `succeed_under`: xz closes its standard error before the library could report there.
    put_under(&mut command, lock);
    assert_same_bytes(&succeed(xz(&INPUT.1)).stdout, &succeed(command).stdout);
}

fn zstd_compresses_the_same(lock: &str) {
    assert_same_bytes(&succeed(zstd(&INPUT.1)).stdout, &succeed_under(zstd(&INPUT.1), lock).stdout);
}

fn assert_same_bytes(plain: &[u8], locked: &[u8]) {
    assert!(plain.len() > 1000, "{} bytes", plain.len());
    assert!(plain == locked, "{} bytes became {} others", plain.len(), locked.len());
}

under_each_lock!(xz_compresses_the_same:
    xz_futex = "futex",
    xz_gcr_mcs_stp = "gcr(mcs-stp)",
    xz_auto = "auto",
    xz_ttas = "ttas",
);
under_each_lock!(zstd_compresses_the_same:
    zstd_futex = "futex",
    zstd_gcr_mcs_stp = "gcr(mcs-stp)",
    zstd_auto = "auto",
    zstd_ttas = "ttas",
);
