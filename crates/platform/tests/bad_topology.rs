//! A process that would go by a bad `LOCKWORK_TOPOLOGY` ends, and says why; one that is set to nothing is not set.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use lockwork_platform::topology;

/// The name that the test gives to processes of its own.
const CHILD: &str = "child";

fn child_with(value: &str) -> Output {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.arg0(CHILD).args(["--exact", "a_bad_topology_is_refused", "--nocapture"]);
    command.env("LOCKWORK_TOPOLOGY", value);
    command.output().expect("this test runs")
}

#[test]
fn a_bad_topology_is_refused() {
    if env::args().next().as_deref() == Some(CHILD) {
        println!("{} nodes", topology::current().nodes());
        return;
    }
    let refused = child_with("nodes:4");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr.starts_with("lockwork: LOCKWORK_TOPOLOGY=`nodes:4`: "), "{stderr}");

    let virtual_one = child_with("node:4 core:8");
    assert!(String::from_utf8_lossy(&virtual_one.stdout).contains("4 nodes"), "{virtual_one:?}");
    let unset = child_with("");
    assert!(
        unset.status.success() && !String::from_utf8_lossy(&unset.stdout).contains("4 nodes"),
        "{unset:?}"
    );
}
