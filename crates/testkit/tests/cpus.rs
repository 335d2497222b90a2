//! On how many CPUs locks think that their process runs: those that it is bound to, and has the quota of. Of a machine with more, and
//! of other processes', nothing follows.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

/// What the library says of a program that `before` starts.
fn cpus(program: &Path, before: &[&str]) -> usize {
    let limited = common::limited(program, 60);
    let mut command = Command::new(before.first().copied().unwrap_or("env"));
    command.args(before.iter().skip(1)).arg(limited.get_program()).args(limited.get_args());
    limited.get_envs().for_each(|(variable, _)| _ = command.env_remove(variable));
    command.env("LOCKWORK_COUNT", "1");
    common::put_under(&mut command, "mcs-stp");
    let output = command.output().expect("timeout (coreutils)");
    assert!(output.status.success(), "{before:?}: {}", common::text(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    // Those that start the program may have used locks as well.
    let said = stderr.lines().rfind(|line| line.starts_with("lockwork: layers") && line.contains("; on "));
    let number = said.and_then(|line| line.rsplit_once("; on ")?.1.strip_suffix(" CPUs")?.parse().ok());
    number.unwrap_or_else(|| panic!("{before:?}: {stderr}"))
}

/// One of the CPUs that this process may use, as the kernel lists them.
fn first_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let list =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list").trim();
    list.split(['-', ',']).next().expect("a CPU").to_owned()
}

#[test]
fn a_process_that_is_bound_to_a_cpu_has_one() {
    let program = common::compiled("layers");
    assert_eq!(cpus(&program, &["taskset", "-c", &first_cpu()]), 1);
    let all = available_parallelism().expect("CPUs").get();
    if all == 1 {
        common::skipped("that a process has more CPUs than one: this one has not");
    } else {
        // The quota, if there is one, is rounded up there, and down here.
        assert!([all, all + 1].contains(&cpus(&program, &[])), "{all}");
    }
    fs::remove_file(program).expect("our own file");
}

/// A control group below this process's, which may run on one CPU's time.
struct Group(PathBuf);

impl Group {
    fn with_the_quota_of_one_cpu() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of = |is_it: &dyn Fn(&str) -> bool| {
            let mut fields = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            fields.find(|(controllers, _)| is_it(controllers)).map(|(_, path)| path.to_owned())
        };
        let (mount, own, file, quota) =
            match of(&|controllers| controllers.split(',').any(|name| name == "cpu")) {
                Some(own) => ("/sys/fs/cgroup/cpu", own, "cpu.cfs_quota_us", "100000"),
                None => ("/sys/fs/cgroup", of(&str::is_empty)?, "cpu.max", "100000 100000"),
            };
        let path = Path::new(mount)
            .join(own.trim_start_matches('/'))
            .join(format!("lockwork-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join(file), quota).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_with_the_quota_of_one_cpu_has_one() {
    let Some(group) = Group::with_the_quota_of_one_cpu() else {
        return common::skipped("the quota of a control group: none can be made here");
    };
    let program = common::compiled("layers");
    let join = format!("echo $$ > '{}' && exec \"$@\"", group.0.join("cgroup.procs").display());
    assert_eq!(cpus(&program, &["sh", "-c", &join, "sh"]), 1);
    fs::remove_file(program).expect("our own file");
}
