//! git: a program made of many short processes, some of them with threads. Children inherit the
//! preload.

use crate::programs::{program, succeed, succeed_under};
use crate::under_each_lock;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

const SCRIPT: &str = r#"
set -e
git init -q -b main a
cd a
for n in $(seq 60); do seq $n $((n * 50)) > file$n; done
git add .
git commit -q -m one
for n in $(seq 0 3 60); do echo "needle $n" >> file$n; done
git add .
git commit -q -m two
git -c pack.threads=4 repack -q -a -d -f
git -c pack.threads=4 clone -q "file://$PWD" ../b
git -C ../b fsck --strict --no-progress
git -C ../b -c grep.threads=8 grep -c needle
git -C ../b rev-parse HEAD
echo done
"#;

/// The script in an empty directory, with nothing of the user's or the clock's in what it prints.
fn script(directory: &Path) -> Command {
    program("git");
    let mut command = program("sh");
    command.args(["-c", SCRIPT]).current_dir(directory).env("HOME", directory);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Tester").env(format!("GIT_{who}_EMAIL"), "tester@localhost");
        command.env(format!("GIT_{who}_DATE"), "2024-01-01T00:00:00Z");
    }
    command
}

static OUTPUT: LazyLock<String> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let text = succeed(script(directory.path())).text();
    assert!(text.ends_with("done\n"), "{text}");
    text
});

fn git_prints_the_same(lock: &str) {
    let directory = tempfile::tempdir().unwrap();
    let ended = succeed_under(script(directory.path()), lock);
    assert_eq!(ended.text(), *OUTPUT);
    let packs = fs::read_dir(directory.path().join("a/.git/objects/pack")).unwrap().count();
    assert!(packs >= 2, "the repack left a pack and its index");
}

under_each_lock!(git_prints_the_same:
    futex = "futex",
    mcs_stp = "mcs-stp",
    gcr_mcs_stp = "gcr(mcs-stp)",
    auto = "auto",
);
