//! The x265 encoder: a pool of threads that wake each other by hundreds of thousands of condition
//! variable broadcasts a second.

use crate::process::Ended;
use crate::programs::{program, succeed, succeed_recorded_under, succeed_under};
use crate::under_each_lock;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const WIDTH: usize = 320;
const HEIGHT: usize = 180;
const FRAMES: usize = 120;

/// A video in YUV4MPEG2 format: a gradient that moves, with a square that moves the other way.
fn video() -> Vec<u8> {
    let mut bytes = format!("YUV4MPEG2 W{WIDTH} H{HEIGHT} F25:1 Ip A1:1 C420jpeg\n").into_bytes();
    for frame in 0..FRAMES {
        bytes.extend_from_slice(b"FRAME\n");
        for y in 0..HEIGHT {
            bytes.extend((0..WIDTH).map(|x| luma(frame, x, y)));
        }
        bytes.extend((0..WIDTH * HEIGHT / 2).map(|at| (at / 40 + frame) as u8));
    }
    bytes
}

fn luma(frame: usize, x: usize, y: usize) -> u8 {
    let left = WIDTH - 2 * frame;
    let in_square = (left.saturating_sub(40)..left).contains(&x) && (60..100).contains(&y);
    if in_square { (x ^ y) as u8 } else { (x + 2 * y + 3 * frame) as u8 }
}

/// One frame at a time, its rows by eight threads. With several frame threads the output depends on timing, under
/// glibc's own locks as well (3 of 180 runs on a busy machine).
fn encode(input: &Path, output: &Path) -> Command {
    let mut command = program("x265");
    command.args(["--preset", "ultrafast", "--no-progress", "--no-info", "--pools", "8", "-F", "1"]);
    command.arg("--input").arg(input).arg("--output").arg(output);
    command
}

/// The video as a file, and what the encoder makes of it without any preload.
struct Reference {
    _directory: tempfile::TempDir,
    input: PathBuf,
    encoded: Vec<u8>,
}

static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("video.y4m");
    fs::write(&input, video()).unwrap();
    let output = directory.path().join("plain.hevc");
    succeed(encode(&input, &output));
    let encoded = fs::read(output).unwrap();
    assert!(encoded.len() > 1000, "the encoder wrote {} bytes", encoded.len());
    Reference { _directory: directory, input, encoded }
});

fn x265_encodes_the_same(lock: &str) {
    encodes_the_same(succeed_under, lock);
}

fn recorded_x265_encodes_the_same(lock: &str) {
    encodes_the_same(succeed_recorded_under, lock);
}

fn encodes_the_same(runs: fn(Command, &str) -> Ended, lock: &str) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("locked.hevc");
    let ended = runs(encode(&REFERENCE.input, &output), lock);
    assert!(ended.stderr.contains(&format!("encoded {FRAMES} frames")), "{}", ended.stderr);
    assert!(fs::read(output).unwrap() == REFERENCE.encoded, "the encoded video differs");
}

under_each_lock!(recorded_x265_encodes_the_same:
    recorded_passthrough = "passthrough",
    recorded_auto = "auto",
);

under_each_lock!(x265_encodes_the_same:
    futex = "futex",
    mcs_stp = "mcs-stp",
    gcr_mcs_stp = "gcr(mcs-stp)",
    auto = "auto",
    ttas = "ttas",
    k42_stp = "k42-stp",
    clh_stp = "clh-stp",
    passthrough = "passthrough",
);
