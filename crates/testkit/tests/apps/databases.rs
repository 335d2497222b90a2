//! Storage engines: RocksDB (one mutex on the block cache, background threads) and Kyoto Cabinet
//! (mostly reader-writer locks).

use crate::process::Ended;
use crate::programs::{program, succeed, succeed_recorded_under, succeed_under, tail};
use crate::under_each_lock;
use std::path::Path;
use std::process::Command;

/// RocksDB's benchmark on the database at `path`: `benchmarks` with `threads`, `reads` each.
fn db_bench(path: &Path, benchmarks: &str, keys: u32, threads: u32, reads: u32) -> Command {
    let mut command = program("db_bench");
    command.arg(format!("--db={}", path.display())).arg(format!("--benchmarks={benchmarks}")).args([
        format!("--num={keys}"),
        format!("--threads={threads}"),
        format!("--reads={reads}"),
    ]);
    // One shard with little room, so that all threads meet at one mutex.
    command.args(["--cache_size=65536", "--cache_numshardbits=0", "--compression_type=none"]);
    command
}

type Runs = fn(Command, &str) -> Ended;

fn reads_find_every_key(runs: Runs, lock: &str, threads: u32, reads: u32) {
    const KEYS: u32 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    succeed(db_bench(directory.path(), "fillseq", KEYS, 1, KEYS));

    let mut command = db_bench(directory.path(), "readrandom", KEYS, threads, reads);
    command.arg("--use_existing_db=1");
    let text = runs(command, lock).text();
    let found = format!("({reads} of {reads} found)");
    assert!(text.contains(&found), "{found} is not in {}", tail(&text));
}

fn rocksdb_reads(lock: &str) {
    reads_find_every_key(succeed_under, lock, 8, 2500);
}

fn recorded_rocksdb_reads(lock: &str) {
    reads_find_every_key(succeed_recorded_under, lock, 8, 2500);
}

/// First-come-first-served spinning collapses when a processor is missing: few threads, few reads.
fn rocksdb_reads_by_two_threads(lock: &str) {
    reads_find_every_key(succeed_under, lock, 2, 1000);
}

/// Writers, compaction and readers together; the last reads must find what the writers left.
fn rocksdb_writes(lock: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        db_bench(directory.path(), "fillseq,overwrite,readwhilewriting,compact,readrandom", 5000, 4, 2000);
    command.args(["--write_buffer_size=131072", "--target_file_size_base=131072"]);
    let text = succeed_under(command, lock).text();
    for benchmark in ["fillseq ", "overwrite ", "readwhilewriting ", "compact ", "readrandom "] {
        assert!(text.contains(benchmark), "{benchmark} is not in {}", tail(&text));
    }
    assert!(text.contains("(2000 of 2000 found)"), "{}", tail(&text));
}

fn kyoto_cabinet_is_consistent(lock: &str) {
    wicked(succeed_under, lock);
}

fn recorded_kyoto_cabinet(lock: &str) {
    wicked(succeed_recorded_under, lock);
}

fn wicked(runs: Runs, lock: &str) {
    let mut command = program("kccachetest");
    command.args(["wicked", "-th", "8", "-it", "1", "10000"]);
    let text = runs(command, lock).text();
    assert!(text.trim_end().ends_with("\nok"), "{}", tail(&text));
}

under_each_lock!(rocksdb_reads:
    rocksdb_reads_futex = "futex",
    rocksdb_reads_mcs_stp = "mcs-stp",
    rocksdb_reads_gcr_mcs_stp = "gcr(mcs-stp)",
    rocksdb_reads_auto = "auto",
    rocksdb_reads_gcr_ticket = "gcr(ticket)",
    rocksdb_reads_ttas = "ttas",
    rocksdb_reads_k42_stp = "k42-stp",
    rocksdb_reads_clh_stp = "clh-stp",
    rocksdb_reads_backoff = "backoff",
    rocksdb_reads_passthrough = "passthrough",
);

under_each_lock!(recorded_rocksdb_reads:
    recorded_rocksdb_reads_passthrough = "passthrough",
    recorded_rocksdb_reads_auto = "auto",
    recorded_rocksdb_reads_mcs_stp = "mcs-stp",
);

under_each_lock!(recorded_kyoto_cabinet:
    recorded_kyoto_cabinet_passthrough = "passthrough",
    recorded_kyoto_cabinet_cst_rwsem = "cst-mutex+cst-rwsem",
);

under_each_lock!(rocksdb_reads_by_two_threads:
    rocksdb_two_threads_ticket = "ticket",
    rocksdb_two_threads_mcs_spin = "mcs-spin",
    rocksdb_two_threads_clh_spin = "clh-spin",
    rocksdb_two_threads_k42_spin = "k42-spin",
    rocksdb_two_threads_tas = "tas",
);

under_each_lock!(rocksdb_writes:
    rocksdb_writes_futex = "futex",
    rocksdb_writes_mcs_stp = "mcs-stp",
    rocksdb_writes_gcr_mcs_stp = "gcr(mcs-stp)",
    rocksdb_writes_auto = "auto",
);

under_each_lock!(kyoto_cabinet_is_consistent:
    kyoto_cabinet_futex = "futex",
    kyoto_cabinet_mcs_stp = "mcs-stp",
    kyoto_cabinet_gcr_mcs_stp = "gcr(mcs-stp)",
    kyoto_cabinet_auto = "auto",
    kyoto_cabinet_cst_rwsem = "cst-mutex+cst-rwsem",
    kyoto_cabinet_ttas = "ttas",
    kyoto_cabinet_k42_stp = "k42-stp",
);
