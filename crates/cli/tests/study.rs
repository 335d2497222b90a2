//! `lockwork study`: campaigns of tiny commands, and everything that can go wrong with them.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{lockwork, output, skipped};
use lockwork_study::{Outcome, Record, Store, Study, database};

/// A directory with a campaign in it.
struct Campaign {
    directory: tempfile::TempDir,
}

const HEAD: &str = "name = 'tiny'\nlocks = ['pthread', 'a', 'b']\ntimeout = 20.0\nlevels.threads = [1, 2]\n";

impl Campaign {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("tiny.toml"), text).unwrap();
        Campaign { directory }
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    fn command(&self) -> Command {
        let mut command = lockwork();
        command.current_dir(self.directory.path()).args(["study", "run", "tiny.toml", "--out", "out"]);
        command
    }

    fn run(&self) -> (Option<i32>, String, String) {
        output(&mut self.command())
    }

    fn runs(&self) -> Vec<Record> {
        Store::read(&database(&self.out())).unwrap().runs().unwrap()
    }

    fn study(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        output(lockwork().current_dir(self.directory.path()).arg("study").args(arguments))
    }
}

/// An application that takes no library, which the tests do not have.
fn application(name: &str, script: &str, more: &str) -> String {
    format!(
        "\n[[application]]\nname = '{name}'\ncommand = ['sh', '-c', '''{script}''']\ninterposed = false\n{more}\n\
         metrics.throughput = 'ops=(\\d+)'\n"
    )
}

#[test]
fn a_campaign_runs_every_configuration_in_every_round_and_reports() {
    let script =
        "echo warm ops=7; echo ops=$((1000 * {threads} + {round})); echo p99 30 us; echo t 1; echo t 3";
    let more = "taught = 'That echo scales.'\n\
                metrics.p99 = { pattern = 'p99 (\\d+) us', scale = 1e-6 }\nmetrics.counts = 't (\\d)'";
    let campaign = Campaign::new(&format!("{HEAD}rounds = 6\n{}", application("x", script, more)));
    let (status, stdout, stderr) = campaign.run();
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("36 ok") && stdout.contains("complete"), "{stdout}");
    let runs = campaign.runs();
    assert_eq!(runs.len(), 3 * 2 * 6);
    for run in &runs {
        let (key, expected) = (&run.key, f64::from(1000 * run.key.threads + run.key.round));
        assert_eq!((run.outcome, run.throughput), (Outcome::Ok, Some(expected)), "{key:?}");
        assert_eq!((run.jain, run.upper_half), (Some(0.8), Some(0.75)));
        assert!((run.p99.unwrap() - 30e-6).abs() < 1e-12);
        assert!(run.usage.max_rss > 0 && run.usage.minor_faults > 0 && !run.surroundings.kernel.is_empty());
        assert_eq!(run.energy, None, "not measured, and not estimated");
    }
    let page = fs::read_to_string(campaign.out().join("report.html")).unwrap();
    for part in ["A study of locks: tiny", "36 in 6 rounds", "Table verdicts", "That echo scales."] {
        assert!(page.contains(part), "{part}");
    }
    // Four comparisons, each of which has a verdict or none: the figures are the same under all locks.
    let (_, summary, _) =
        campaign.study(&["report", "--from", "out", "--table", "summary", "--format", "csv"]);
    assert!(summary.contains("\na,2,0,0,2,1.0000,1.0000,1.0000"), "{summary}");

    // Once more: nothing is left to do.
    let (status, stdout, _) = campaign.run();
    assert_eq!((status, campaign.runs().len()), (Some(0), 36), "{stdout}");
    let (_, watched, _) = campaign.study(&["watch", "out"]);
    assert!(watched.starts_with("tiny: 36 of 36 runs, complete (36 ok)"), "{watched}");

    // What is exported is read as any other file of runs, and says the same.
    let (_, csv, _) = campaign.study(&["export", "out"]);
    assert!(csv.starts_with("bench,node,strategy,throughput,rep,p99,energy,"), "{csv}");
    let read =
        Study::from_reader(csv.as_bytes(), Path::new("x.csv"), lockwork_study::Energy::Joules).unwrap();
    assert_eq!((read.locks.len(), read.applications.len(), read.has_latency()), (3, 1, true));
    let (status, verdicts, _) =
        campaign.study(&["report", "--from", "out", "--table", "verdicts", "--format", "csv"]);
    assert_eq!(status, Some(0));
    assert!(verdicts.contains("x,1,unpinned,a,6,1.0000,1.0000,1.0000"), "{verdicts}");
}

#[test]
fn hangs_crashes_silence_and_absence_are_recorded_and_average_into_nothing() {
    let text = [
        HEAD.to_owned(),
        "rounds = 3\nmost-rounds = 4\n".to_owned(),
        application("hangs", "echo begun; sleep 60", "timeout = 0.2\nexcluded = { b = 'it needs trylock' }"),
        application("crashes", "echo ops=5; kill -SEGV $$", ""),
        application("exits", "echo ops=5; echo no room >&2; exit 3", ""),
        application("silent", "true", ""),
        application("zero", "echo ops=0", ""),
        application("unprepared", "echo ops=1", "setup = [['sh', '-c', 'echo full; exit 1']]"),
        application("sometimes", "[ {round} = 1 ] && exit 1; echo ops=100", ""),
        "\n[[application]]\nname = 'absent'\npackage = 'some-package'\ncommand = ['no-such-program']\ninterposed = false\nwork = 1\n".to_owned(),
    ];
    let campaign = Campaign::new(&text.concat());
    let (status, stdout, stderr) = campaign.run();
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let runs = campaign.runs();
    let of = |name: &str| runs.iter().filter(|run| run.key.application == name).collect::<Vec<_>>();
    let expect = |name: &str, outcome: Outcome, count: usize, reason: &str| {
        let runs = of(name);
        assert_eq!(runs.len(), count, "{name}: {runs:#?}");
        for run in runs {
            assert_eq!((run.outcome, run.throughput), (outcome, None), "{run:?}");
            assert!(run.reason.as_deref().unwrap().contains(reason), "{run:?}");
        }
    };
    // Six configurations, four of the one that excludes a lock; given up after the second failure.
    expect("hangs", Outcome::TimedOut, 4 * 2, "killed after 0.2 s: begun");
    expect("crashes", Outcome::Crashed, 6 * 2, "signal 11: ops=5");
    expect("exits", Outcome::Crashed, 6 * 2, "exit status 3: ");
    expect("silent", Outcome::Silent, 6 * 2, "no throughput");
    expect("zero", Outcome::Silent, 6 * 2, "no throughput");
    expect("unprepared", Outcome::Unprepared, 6 * 2, "set-up: sh: exit status 1: full");
    assert!(of("absent").is_empty());
    let sometimes = of("sometimes");
    assert_eq!(sometimes.iter().filter(|run| run.outcome == Outcome::Ok).count(), 6 * 2);
    for said in ["absent: not installed: apt-get install some-package", "hangs under b: it needs trylock"] {
        assert!(stdout.contains(said), "{stdout}");
    }
    // The mean of the good runs is what they have, and only they count.
    let studies = Study::of_records(&runs);
    let view = lockwork_study::View::new(&studies[0], lockwork_study::Metric::Throughput);
    let place = studies[0].applications.iter().position(|name| name == "sometimes").unwrap();
    assert_eq!(view.value(place, 1, 0), Some(100.0));
    assert_eq!(studies[0].bad_runs["crashes"], 12);
}

#[test]
fn a_program_that_the_library_does_not_serve_has_no_figure_of_the_lock() {
    // The library of these tests is the C library: it reports nothing, as with a static program.
    let text = "name = 'tiny'\nlocks = ['pthread', 'mcs-stp']\nrounds = 2\nlevels.threads = [1]\n
        [[application]]\nname = 'x'\ncommand = ['true']\nwork = 1\n";
    let campaign = Campaign::new(text);
    campaign.run();
    for run in campaign.runs() {
        let expected = if run.key.lock == "pthread" { Outcome::Ok } else { Outcome::NotServed };
        assert_eq!(run.outcome, expected, "{run:?}");
    }
}

#[test]
fn what_was_served_is_kept_and_reported() {
    let said =
        "served 3 mutexes by mcs-stp; forwarded to glibc 0 mutexes, 0 conditions, 0 rwlocks, 0 spin locks";
    let text = format!(
        "name = 'tiny'\nlocks = ['mcs-stp']\nrounds = 1\nlevels.threads = [1]\n
         [[application]]\nname = 'x'\ncommand = ['sh', '-c', 'echo \"lockwork: x[7]: {said}\"']\nwork = 1\n"
    );
    let campaign = Campaign::new(&text);
    campaign.run();
    assert_eq!(campaign.runs()[0].served.as_deref(), Some(said));
    let page = fs::read_to_string(campaign.out().join("report.html")).unwrap();
    assert!(page.contains("mutexes of x"), "{page}");
}

#[test]
fn killed_ten_times_at_random_it_loses_the_run_in_progress_at_most() {
    let text = format!(
        "{HEAD}rounds = 12\n{}",
        application("x", "sleep 0.01; echo made >>{dir}/../log; echo ops=1{round}", "")
    );
    let campaign = Campaign::new(&text);
    let seed = std::process::id();
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    let log = campaign.out().join("scratch/log");
    let made = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let mut before = 0;
    for kill in 0..10 {
        let mut child = campaign.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // At least one run, so that ten kills are ten different moments; then any moment.
        let limit = Instant::now() + Duration::from_secs(30);
        while made() <= before && Instant::now() < limit && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random.u64(..40_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        // The command in progress dies with it; it may have written its line.
        std::thread::sleep(Duration::from_millis(30));
        let recorded = campaign.runs().len();
        assert!(made() <= recorded + kill + 1, "seed {seed}: {} made, {recorded} recorded", made());
        before = made();
    }
    assert_eq!(campaign.run().0, Some(0));
    let runs = campaign.runs();
    assert_eq!(runs.len(), 3 * 2 * 12);
    assert!(runs.iter().all(|run| run.outcome == Outcome::Ok), "seed {seed}");
    assert!(made() <= 3 * 2 * 12 + 10, "seed {seed}: more than the runs in progress were made again");
}

#[test]
fn a_full_disk_ends_the_campaign_which_goes_on_when_there_is_room() {
    let text = format!("{HEAD}rounds = 40\n{}", application("x", "echo ops=5", ""));
    let campaign = Campaign::new(&text);
    // A disk of 100 KiB, which only this process and its children see.
    let mount = campaign.directory.path().join("out");
    fs::create_dir(&mount).unwrap();
    let tool = env!("CARGO_BIN_EXE_lockwork");
    let script = format!(
        "mount -t tmpfs -o size=100k none out && {tool} study run tiny.toml --out out; status=$?
         cp out/runs.sqlite* .; mount -o remount,size=10m out; {tool} study run tiny.toml --out out >again.txt; echo $status $?"
    );
    let probe = Command::new("unshare").args(["-rm", "sh", "-c", "mount -t tmpfs none /mnt"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skipped("a full disk: no user namespaces to mount one in");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).current_dir(campaign.directory.path());
    command.env("LOCKWORK_SO", common::harmless_library());
    let (_, stdout, stderr) = output(&mut command);
    assert!(stdout.trim_end().ends_with("1 0"), "{stdout}{stderr}");
    assert!(stderr.contains("full") && stderr.contains("the same command goes on"), "{stderr}");
    let kept = Store::read(&campaign.directory.path().join("runs.sqlite")).unwrap().runs().unwrap();
    assert!((1..240).contains(&kept.len()), "{} runs were recorded before the disk was full", kept.len());
    let again = fs::read_to_string(campaign.directory.path().join("again.txt")).unwrap();
    assert!(again.contains("240 ok"), "{again}");
}

#[test]
fn watching_ends_when_nobody_reads() {
    let text = format!("{HEAD}rounds = 1\n{}", application("x", "sleep 1; echo ops=5", ""));
    let campaign = Campaign::new(&text);
    campaign.command().args(["--budget", "0.5s"]).output().unwrap();
    let mut watching = lockwork()
        .current_dir(campaign.directory.path())
        .args(["study", "watch", "out", "--every", "3600"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(watching.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(" of 6 runs") && !line.contains("complete"), "{line}");
    // The pipe is closed by now.
    let limit = Instant::now() + Duration::from_secs(60);
    while watching.try_wait().unwrap().is_none() {
        if Instant::now() > limit {
            watching.kill().unwrap();
            panic!("it watches on though nobody reads");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn percentiles_in_another_unit_than_seconds_are_a_mistake() {
    let metric = "metrics.p99 = 'p99 (\\d+)'";
    let campaign =
        Campaign::new(&format!("{HEAD}rounds = 2\n{}", application("x", "echo ops=5 p99 300", metric)));
    campaign.run();
    let runs = campaign.runs();
    assert!(!runs.is_empty());
    for run in runs {
        assert_eq!(run.outcome, Outcome::Silent);
        let reason = run.reason.unwrap();
        assert!(
            reason.starts_with("its p99 is 300 s") && reason.contains("give metrics.p99 a `scale`"),
            "{reason}"
        );
    }
}

#[test]
fn a_changed_application_needs_new_runs_and_two_campaigns_do_not_share_a_directory() {
    let text = |ops: u32| format!("{HEAD}rounds = 1\n{}", application("x", &format!("echo ops={ops}"), ""));
    let campaign = Campaign::new(&text(5));
    assert_eq!(campaign.run().0, Some(0));
    fs::write(campaign.directory.path().join("tiny.toml"), text(6)).unwrap();
    let (status, _, stderr) = campaign.run();
    assert_eq!(status, Some(1));
    assert!(stderr.contains("was changed") && stderr.contains("--forget x"), "{stderr}");
    assert_eq!(output(campaign.command().args(["--forget", "x"])).0, Some(0));
    assert!(campaign.runs().iter().all(|run| run.throughput == Some(6.0)));
}

#[test]
fn what_another_command_is_making_is_not_forgotten() {
    let campaign = Campaign::new(&format!("{HEAD}rounds = 1\n{}", application("x", "echo ops=5", "")));
    assert_eq!(campaign.run().0, Some(0));
    let lock = fs::File::create(campaign.out().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    for flags in [&["--forget", "x"][..], &["--retry-failed"]] {
        let (status, _, stderr) = output(campaign.command().args(flags));
        assert_eq!(status, Some(1), "{stderr}");
        assert!(
            stderr.contains("another lockwork is at work here") && !stderr.contains("forgot"),
            "{stderr}"
        );
    }
    assert_eq!(campaign.runs().len(), 3 * 2);
    drop(lock);
    let (status, _, stderr) = output(campaign.command().args(["--forget", "x"]));
    assert!(status == Some(0) && stderr.contains("forgot 6 runs of x"), "{stderr}");
}

#[test]
fn what_comes_before_a_run_is_no_use_of_others_during_it() {
    // A second of computing, then a short wait. The machine may be busy otherwise, but not busier than all its CPUs.
    let prepare = "prepare = [['sh', '-c', 'i=0; while [ $i -lt 1000000 ]; do i=$((i + 1)); done']]";
    let text = format!(
        "name = 'tiny'\nlocks = ['pthread']\nrounds = 2\nlevels.threads = [1]\n{}",
        application("x", "sleep 0.05; echo ops=5", prepare)
    );
    let campaign = Campaign::new(&text);
    assert_eq!(campaign.run().0, Some(0));
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    for run in campaign.runs() {
        let others = run.surroundings.competing.expect("Linux says it");
        assert!(others <= (run.seconds + 0.05) * cpus, "{others} CPU seconds in {} s", run.seconds);
    }
}

#[test]
fn a_queue_that_cannot_be_asked_is_said_and_ends_the_work() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    for program in ["squeue", "sbatch", "srun"] {
        let path = directory.path().join(program);
        fs::write(&path, "#!/bin/sh\necho 'slurm: DNS SRV lookup failed' >&2\nexit 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = lockwork();
    command
        .current_dir(directory.path())
        .args([
            "sim",
            "--threads",
            "1",
            "--locks",
            "futex,ttas",
            "--out",
            "out",
            "--on",
            "slurm",
            "--every",
            "0.05",
        ])
        .env("PATH", format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap()))
        .stderr(fs::File::create(directory.path().join("said")).unwrap());
    let mut child = command.spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(120);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > limit => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("it waits for ever");
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let said = fs::read_to_string(directory.path().join("said")).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    let lines: Vec<&str> =
        said.lines().filter(|line| line.contains("squeue: slurm: DNS SRV lookup failed")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("until it answers") && lines[1].contains("120 times in a row"), "{said}");
}

#[test]
fn a_client_refuses_what_means_nothing() {
    for (flags, said) in [
        (&["--reads", "7"][..], "a share between 0 and 1"),
        (&["--reads", "NaN"], "a share between 0 and 1"),
        (&["--warm-up", "2000", "--seconds", "2"], "no request would count"),
    ] {
        let (status, _, stderr) =
            output(lockwork().args(["study", "client", "redis", "--port", "1"]).args(flags));
        assert_eq!(status, Some(2), "{flags:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{flags:?}: {stderr}");
    }
}

#[test]
fn energy_is_read_where_there_are_counters() {
    let campaign = Campaign::new(&format!(
        "{HEAD}rounds = 1\n{}",
        application(
            "x",
            "sleep 0.2; echo 3500000 >$OLDPWD/../../../rapl/intel-rapl:0/energy_uj; echo ops=10; sleep 0.3",
            ""
        )
        .replace("$OLDPWD/../../..", "{dir}/../../..")
    ));
    let zone = campaign.directory.path().join("rapl/intel-rapl:0");
    fs::create_dir_all(&zone).unwrap();
    for (file, text) in [("name", "package-0"), ("energy_uj", "1000000"), ("max_energy_range_uj", "9000000")]
    {
        fs::write(zone.join(file), text).unwrap();
    }
    let (status, stdout, stderr) = output(campaign.command().args(["--powercap", "rapl"]));
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let runs = campaign.runs();
    // The counter stands still from the second run on.
    let most = runs.iter().filter_map(|run| run.energy).fold(0.0, f64::max);
    assert!(runs.iter().all(|run| run.energy.is_some()) && (most - 2.5).abs() < 1e-9, "{most}");
}

#[test]
fn what_is_wrong_with_a_campaign_is_said_in_one_line() {
    for (text, said) in [
        ("name = 'x'", "missing field `locks`"),
        ("name = 'x'\nlocks = []\napplication = []", "at least"),
        ("name = 'x'\nlocks = ['a']\nextra = 1\napplication = []", "unknown field `extra`"),
        ("name = 'x'\nlocks = ['a']\n[[application]]\nname = 'y'\ncommand = ['z']", "metrics.throughput"),
        (
            "name = 'x'\nlocks = ['a']\n[[application]]\nname = 'y'\ncommand = ['z']\nmetrics.throughput = '5'",
            "no group",
        ),
        (
            "name = 'x'\nlocks = ['a']\ntimeout = -1\n[[application]]\nname = 'y'\ncommand = ['z']\nwork = 1",
            "timeout is -1: seconds, from 0.01",
        ),
        (
            "name = 'x'\nlocks = ['no-lock']\n[[application]]\nname = 'y'\ncommand = ['z']\nwork = 1",
            "no-lock",
        ),
    ] {
        let campaign = Campaign::new(text);
        let (status, _, stderr) = campaign.run();
        assert_eq!(status, Some(2), "{text}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{text}: {stderr}");
    }
}

#[test]
fn a_server_gets_the_lock_and_its_client_is_measured() {
    let server = "import socket,sys,signal
s=socket.create_server(('127.0.0.1',int(sys.argv[1])))
signal.signal(signal.SIGTERM,lambda *a:sys.exit(0))
while True:
    c,_=s.accept()
    c.sendall(b'77')
    c.close()";
    let client = "import socket,sys
print('ops='+socket.create_connection(('127.0.0.1',int(sys.argv[1]))).recv(9).decode())";
    let text = format!(
        "{HEAD}rounds = 1\n[[application]]\nname = 'x'\nserver = ['python3', '-c', \"\"\"{server}\"\"\", '{{port}}']\n\
         command = ['python3', '-c', \"\"\"{client}\"\"\", '{{port}}']\ninterposed = false\nmetrics.throughput = 'ops=(\\d+)'\n\
         [[application]]\nname = 'dies'\nserver = ['sh', '-c', 'exit 4', '{{port}}']\ncommand = ['true']\n\
         interposed = false\nmetrics.throughput = 'ops=(\\d+)'\n"
    );
    let campaign = Campaign::new(&text);
    let (_, stdout, stderr) = campaign.run();
    for run in campaign.runs() {
        match run.key.application.as_str() {
            "x" => assert_eq!(run.throughput, Some(77.0), "{run:?} {stdout} {stderr}"),
            _ => assert!(run.reason.unwrap().contains("before it opened its port")),
        }
    }
}

/// A cluster that is stopped whatever becomes of the test.
struct Cluster {
    directory: tempfile::TempDir,
}

impl Cluster {
    fn script() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/slurm.sh")
    }

    fn start(nodes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let script = Command::new(Self::script())
            .arg("start")
            .arg(directory.path())
            .arg(nodes.to_string())
            .output()
            .unwrap();
        match script.status.code() {
            Some(0) => Some(Cluster { directory }),
            Some(3) => {
                let said = String::from_utf8_lossy(&script.stderr);
                skipped(&format!("campaigns on Slurm: {}", said.trim().trim_start_matches("slurm.sh: ")));
                None
            }
            _ => panic!("{}", String::from_utf8_lossy(&script.stderr)),
        }
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("slurm.conf")
    }

    fn kill(&self, node: &str) {
        let status = Command::new(Self::script())
            .arg("kill-node")
            .arg(self.directory.path())
            .arg(node)
            .status()
            .unwrap();
        assert!(status.success());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new(Self::script()).arg("stop").arg(self.directory.path()).status();
    }
}

#[test]
fn on_slurm_five_hundred_runs_are_complete_though_a_node_is_killed() {
    let Some(cluster) = Cluster::start(4) else { return };
    let locks: Vec<String> = (0..10).map(|lock| format!("'l{lock}'")).collect();
    let text = format!(
        "name = 'tiny'\nlocks = [{}]\nbaseline = 'l0'\ntimeout = 20.0\nlevels.threads = [1, 2, 3, 4, 5]\nrounds = 10\n{}",
        locks.join(", "),
        application("x", "sleep 0.02; echo ops=1{threads}{round}", "")
    );
    let campaign = Campaign::new(&text);
    let mut command = campaign.command();
    command
        .args(["--on", "slurm", "--jobs", "4", "--every", "0.2"])
        .env("SLURM_CONF", cluster.configuration());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(240);
    let recorded = || {
        Store::read(&database(&campaign.out())).and_then(|store| store.runs()).map_or(0, |runs| runs.len())
    };
    while recorded() < 100 && child.try_wait().unwrap().is_none() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!((100..400).contains(&recorded()), "{} runs", recorded());
    cluster.kill("n2");
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > limit {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let runs = campaign.runs();
    assert_eq!(runs.len(), 500, "{said}");
    assert!(runs.iter().all(|run| run.outcome == Outcome::Ok));
    let hosts: std::collections::BTreeSet<&str> =
        runs.iter().map(|run| run.surroundings.host.as_str()).collect();
    assert_eq!(hosts.into_iter().collect::<Vec<_>>(), ["n1", "n2", "n3", "n4"]);
    assert!(said.contains("The runs are of 4 hosts: n1, n2, n3, n4."), "{said}");
    // The runs of one round of a cell, which are compared, are of one node, but for the unit that the killed node had.
    let mut split = 0;
    for unit in runs.chunk_by(|a, b| a.key.threads == b.key.threads) {
        for round in 0..10 {
            let mut of_round: Vec<&str> = unit
                .iter()
                .filter(|run| run.key.round == round)
                .map(|run| run.surroundings.host.as_str())
                .collect();
            of_round.sort_unstable();
            of_round.dedup();
            split += usize::from(of_round.len() > 1);
        }
    }
    assert!(split <= 1, "{split} units are of several nodes");
}

/// The number of a list of points that were handed in by the tasks of a cluster.
fn handed_in(out: &Path) -> usize {
    fs::read_dir(out.join("queue/done")).map_or(0, |entries| {
        entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
    })
}

/// Simulates on a cluster; `meanwhile` is called again and again. Gives what was printed.
fn simulate_on(
    cluster: &Cluster,
    out: &Path,
    arguments: &[&str],
    mut meanwhile: impl FnMut(usize),
) -> String {
    let mut command = lockwork();
    command.arg("sim").args(arguments).arg("--out").arg(out);
    command
        .args(["--on", "slurm", "--jobs", "4", "--every", "0.2"])
        .env("SLURM_CONF", cluster.configuration());
    // Into files: nobody reads a pipe before the end.
    let said = ["stdout", "stderr"].map(|name| out.with_extension(name));
    let [stdout, stderr] = said.each_ref().map(|path| fs::File::create(path).unwrap());
    let mut child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(240);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > limit => child.kill().unwrap(),
            None => meanwhile(handed_in(out)),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let [stdout, stderr] = said.map(|path| fs::read_to_string(path).unwrap());
    assert!(status.success(), "{stderr}");
    assert_eq!(handed_in(out), 0, "the work list is gone when all is done");
    stdout
}

#[test]
fn simulations_on_slurm_give_what_this_host_gives_though_a_node_is_killed() {
    let Some(cluster) = Cluster::start(3) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let here = |arguments: &[&str]| {
        let (status, stdout, stderr) =
            output(lockwork().arg("sim").args(arguments).current_dir(directory.path()));
        assert_eq!(status, Some(0), "{stderr}");
        stdout
    };

    // A sweep: two machines in one list, a node killed in the middle.
    let sweep = [
        "--machine",
        "i-20",
        "--machine",
        "a-64",
        "--locks",
        "futex,mcs-spin",
        "--threads",
        "2,8",
        "--seeds",
        "10",
        "--time",
        "0.05",
        "--json",
    ];
    let figures = |text: &str| -> Vec<serde_json::Value> {
        let documents: serde_json::Value = serde_json::from_str(text).unwrap();
        documents.as_array().unwrap().iter().map(|document| document["summary"].clone()).collect()
    };
    let mut killed = false;
    let spread = simulate_on(&cluster, &at("sweep"), &sweep, |made| {
        if made >= 8 && !killed {
            cluster.kill("n2");
            killed = true;
        }
    });
    assert!(killed, "no node was killed in the middle");
    let local = here(&[&sweep[..], &["--no-report"]].concat());
    assert_eq!(figures(&spread), figures(&local));
    assert_eq!(
        figures(&local).iter().map(|summary| summary.as_array().unwrap().len()).sum::<usize>(),
        2 * 13 * 4
    );

    // Published results beside simulated ones.
    let claims = ["validate", "Guiroux", "--seeds", "2", "--json"];
    assert_eq!(simulate_on(&cluster, &at("claims"), &claims, |_| ()), here(&claims));

    // How often each lock is among the best; runs are kept as they come, and none is made twice.
    let cells = [
        "coverage",
        "--machine",
        "i-20",
        "--load",
        "short",
        "--threads",
        "1,4",
        "--locks",
        "futex,ttas,mcs-spin",
        "--placement",
        "unpinned",
        "--seeds",
        "2",
        "--time",
        "0.05",
    ];
    simulate_on(&cluster, &at("cells"), &cells, |_| ());
    here(&[&cells[..], &["--out", "here"]].concat());
    let table = |name: &str| fs::read_to_string(at(name).join("coverage.csv")).unwrap();
    assert_eq!(table("cells"), table("here"));
    let runs = fs::read_to_string(at("cells").join("runs.jsonl")).unwrap();
    assert_eq!(runs.lines().count(), 2 * 3 * 2);

    // What is wrong is said in one line.
    let (status, _, stderr) = output(lockwork().args(["sim", "validate", "Guiroux", "--on", "slurm"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("needs --out") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn the_campaigns_that_ship_are_understood() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns");
    for name in ["debian", "micro", "sim"] {
        for quick in [&[][..], &["--quick"]] {
            let file = directory.join(format!("{name}.toml"));
            let (status, stdout, stderr) =
                output(lockwork().args(["study", "run", "--dry-run"]).args(quick).arg(file));
            assert_eq!(status, Some(0), "{name}: {stderr}");
            assert!(stdout.contains(" rounds"), "{stdout}");
        }
    }
}

#[test]
fn a_simulated_campaign_runs_through_the_same_door() {
    let campaign = Campaign::new(
        "name = 'tiny'\nlocks = ['futex', 'mcs-spin']\nbaseline = 'futex'\nrounds = 2\n
        [[application]]\nname = 'micro-i-20'\nof = 'micro'\nmachine = 'i-20'\ninterposed = false
        levels.machine = [{ nodes = 1, threads = 2 }, { nodes = 2, threads = 4 }]
        command = ['{lockwork}', 'sim', '--machine', 'i-20', '--threads', '{threads}', '--locks', '{lock}', '--seeds', '1',
            '--first-seed', '{seed}', '--time', '0.05', '--no-report', '--json']
        metrics.throughput = '\"throughput\":\\s*([\\d.e+]+)'\n",
    );
    let (status, stdout, stderr) = campaign.run();
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let studies = Study::of_records(&campaign.runs());
    assert_eq!((studies[0].machine.as_str(), studies[0].applications[0].as_str()), ("i-20", "micro"));
    let (runs, again) = (campaign.runs(), output(campaign.command().args(["--forget", "micro-i-20"])));
    assert_eq!(again.0, Some(0), "{}", again.2);
    for (first, second) in runs.iter().zip(campaign.runs()) {
        assert_eq!(first.throughput, second.throughput, "a seed determines a run: {:?}", first.key);
    }
}
