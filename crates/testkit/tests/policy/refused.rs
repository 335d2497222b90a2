//! Policies that are refused: a line that says where and why, exit status 2, and nothing started.

use std::path::Path;

use crate::common::text;
use crate::harness::{Bench, path, rule, under};

/// What the library says of the policy in `file` in place of starting a program.
fn refusal(file: &Path) -> String {
    let mut command = under(Path::new("/bin/echo"), &[("LOCKWORK_POLICY", path(file))]);
    let output = command.arg("started").output().expect("timeout (coreutils)");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(output.stdout.is_empty(), "{}", text(&output));
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let line = stderr.strip_prefix("lockwork: ").unwrap_or_else(|| panic!("{stderr}"));
    line.trim_end().to_owned()
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let bench = Bench::new();
    for (policy, expected) in [
        ("default = \"mcs-stpp\"", ":1:12: unknown lock `mcs-stpp`: did you mean `mcs-stp`?"),
        ("\n[[rule]]\nkid = \"spin\"", ":3:1: a rule has no key `kid`: did you mean `kind`?"),
        ("# ü\ndefault = \"gcr(mcs-stp, activ=3)\"", ":2:25: `gcr` has no knob `activ`"),
        ("default = ", ":1:11: "),
        (
            "default = \"ttas\"\n\n[[rule]]\nkind = \"spin\"\ninit = \"main\"\nlock = \"passthrough\"",
            ":3:1: a rule for spin locks cannot have `init` or `symbol`: leave them out",
        ),
    ] {
        let file = bench.policy(policy);
        let expected = format!("{}{expected}", file.display());
        let said = refusal(&file);
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn files_that_are_no_policies() {
    let bench = Bench::new();
    let missing = bench.path("missing.toml");
    assert_eq!(
        refusal(&missing),
        format!("policy `{}` cannot be read: no such file or directory; check the path", missing.display())
    );
    let directory = bench.path("");
    assert_eq!(
        refusal(&directory),
        format!("policy `{}` cannot be read: it is a directory; check the path", directory.display())
    );
    let binary = bench.path("binary.toml");
    std::fs::write(&binary, b"# a\xc3\xbc\n# \xff").unwrap();
    assert_eq!(
        refusal(&binary),
        format!("{}:2:3: the file is not UTF-8; save it as UTF-8", binary.display())
    );
    let large = bench.policy(&"# comment\n".repeat(110_000));
    assert_eq!(
        refusal(&large),
        format!("policy `{}` is larger than 1 MiB, which no policy needs", large.display())
    );
}

#[test]
fn more_locks_than_there_are_tags() {
    let bench = Bench::new();
    let policy = |count: u32| {
        let rules =
            (1..=count).map(|active| rule(&[("kind", "mutex")], &format!("gcr(ticket, active={active})")));
        format!("default = \"ttas\"\n{}", rules.collect::<String>())
    };
    assert!(refusal(&bench.policy(&policy(62))).contains("at most 62 different locks"));
    let mut enough = bench.under(Path::new("/bin/true"), &policy(61));
    assert!(enough.status().unwrap().success());
}

/// A large policy is a slow start, not a refusal.
#[test]
fn thousands_of_rules() {
    let bench = Bench::new();
    let program = bench.build("kinds", "kinds.c", &[]);
    let rules = (0..8000).map(|number| rule(&[("init", &format!("ns::function_{number}"))], "ticket"));
    let policy = rules.chain([rule(&[("kind", "mutex")], "ttas")]).collect::<String>();
    let mut command = bench.under(&program, &policy);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success());
    assert!(stderr.contains("served 8 mutexes by ttas"), "{}", &stderr[..stderr.len().min(1000)]);
}
