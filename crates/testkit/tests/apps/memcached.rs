//! memcached under a load from the loopback interface: many threads, locks on hash buckets and
//! slab classes, try-locks.

use crate::process::{LIMIT, Running, signal_group};
use crate::programs::{assert_served, program, put_under, succeed};
use crate::under_each_lock;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// memcached on a free port of 127.0.0.1; dropping it kills it.
struct Server {
    process: Running,
    address: String,
}

impl Server {
    fn start(lock: &str, directory: &Path, is_recorded: bool) -> Self {
        let port_file = directory.join("port");
        let mut command = program("memcached");
        // `-p -1` takes any free port; `-u` is needed by root and has no effect for others.
        command.args(["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-t", "4", "-u", "root"]);
        command.env("MEMCACHED_PORT_FILENAME", &port_file);
        put_under(&mut command, lock);
        if is_recorded {
            command.env("LOCKWORK_PROFILE", directory.join("profile"));
        }
        let process = Running::start(&mut command);
        let port = wait_for_port(&port_file);
        Self { process, address: format!("127.0.0.1:{port}") }
    }

    /// Asks for an orderly end, which joins the threads.
    fn stop(self, lock: &str) {
        signal_group(self.process.pid(), "TERM");
        let ended = self.process.wait(LIMIT);
        assert!(ended.status.success(), "{:?}: {}", ended.status, ended.stderr);
        assert_served(&ended, lock);
    }
}

fn wait_for_port(file: &Path) -> u16 {
    let deadline = Instant::now() + LIMIT;
    loop {
        // One line, such as "TCP INET: 34767".
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some(line) = text.strip_suffix('\n')
            && let Some(port) = line.strip_prefix("TCP INET: ")
        {
            return port.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "memcached did not open a port");
        thread::sleep(Duration::from_millis(10));
    }
}

fn memcached_returns_what_was_stored(lock: &str) {
    returns_what_was_stored(lock, false);
}

fn recorded_memcached_returns_what_was_stored(lock: &str) {
    returns_what_was_stored(lock, true);
}

fn returns_what_was_stored(lock: &str, is_recorded: bool) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(lock, directory.path(), is_recorded);
    // Its own default, from a file that is there: it looks for one in the home directory otherwise, and may find none.
    let settings = directory.path().join("memcaslap.cnf");
    fs::write(&settings, "key\n64 64 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n").unwrap();
    let mut load = program("memcaslap");
    load.args(["-s", &server.address, "-T", "2", "-c", "32", "-x", "40000", "-v", "0.5", "-F"]).arg(settings);
    load.env("HOME", directory.path());
    let text = succeed(load).text();
    for line in ["get_misses: 0\n", "verify_misses: 0\n", "verify_failed: 0\n", "Ops: 40000 "] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    server.stop(lock);
}

under_each_lock!(recorded_memcached_returns_what_was_stored:
    recorded_passthrough = "passthrough",
    recorded_auto = "auto",
);

under_each_lock!(memcached_returns_what_was_stored:
    futex = "futex",
    mcs_stp = "mcs-stp",
    gcr_mcs_stp = "gcr(mcs-stp)",
    auto = "auto",
    ttas = "ttas",
    k42_stp = "k42-stp",
);
