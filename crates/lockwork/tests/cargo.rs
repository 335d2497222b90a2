//! A package of its own that depends on the library, as a user writes it.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use lockwork_locks::registry;

const PROGRAM: &str = r#"
use lockwork::{Delegated, Mutex};

static CALLS: Mutex<u32> = Mutex::new(0);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    *CALLS.lock() += 1;
    let spec = std::env::args().nth(1).ok_or("usage: user DELEGATE")?;
    let words = Delegated::with_spec(&spec, vec!["one"]).map_err(|error| error.to_string())?;
    words.run(|words| words.push("two"));
    println!("{} {}", CALLS.lock(), words.into_inner().join(" "));
    Ok(())
}
"#;

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_package_that_depends_on_the_library() {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("user");
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nlockwork = {{ path = {:?} }}\n\n\
         [workspace]\n",
        library.to_str().expect("a path in UTF-8")
    );
    fs::create_dir_all(package.join("src")).expect("a directory");
    fs::write(package.join("Cargo.toml"), manifest).expect("a file");
    fs::write(package.join("src/main.rs"), PROGRAM).expect("a file");
    // The versions of the workspace, which are there without asking a registry.
    fs::copy(library.join("../../Cargo.lock"), package.join("Cargo.lock")).expect("a copy");
    let target = package.join("target");
    printed(
        Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--offline"])
            .current_dir(&package)
            .env("CARGO_TARGET_DIR", &target),
    );
    let every = registry::delegates().map(|delegate| delegate.name);
    for spec in every.chain(["rcl(servers=1)", "locked(gcr(mcs-stp, active=2))"]) {
        let mut program = Command::new("timeout");
        program.args(["-s", "KILL", "60"]).arg(target.join("debug/user")).arg(spec);
        assert_eq!(printed(&mut program), "1 one two\n", "{spec}");
    }
    let wrong = Command::new(target.join("debug/user")).arg("mcs-stp").output().expect("it starts");
    assert!(!wrong.status.success());
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("`mcs-stp` is a lock: closures run under it as `locked(mcs-stp)`"), "{said}");
}
