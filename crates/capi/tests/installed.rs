//! Programs that are built with what `scripts/install.sh library` installs, by the flags of pkg-config and by CMake.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{CRATE, DELEGATES, run};

const C: &str = r#"
#include <lockwork.h>
#include <stdio.h>

static void *more(void *number) { return ++*(int *)number, number; }

int main(int count, char **arguments) {
    lockwork_delegate_t delegate;
    int number = count;
    if (lockwork_delegate_init(&delegate, arguments[1]) != 0) return puts(lockwork_error()), 1;
    if (*(int *)lockwork_delegate_run(&delegate, more, &number) != 3) return 1;
    return lockwork_delegate_destroy(&delegate);
}
"#;

const CPP: &str = r#"
#include <lockwork.hpp>
#include <mutex>

int main(int, char **arguments) {
    lockwork::mutex mutex("gcr(mcs-stp)");
    std::lock_guard guard(mutex);
    lockwork::delegated<int> count(arguments[1], 41);
    return count.run([](int &count) { return ++count; }) == 42 ? 0 : 1;
}
"#;

const CMAKE: &str = r"
cmake_minimum_required(VERSION 3.13)
project(user C CXX)
find_package(lockwork 0.1 REQUIRED)
add_executable(one one.c)
target_link_libraries(one lockwork::lockwork)
add_executable(two two.cpp)
target_compile_features(two PRIVATE cxx_std_17)
target_link_libraries(two lockwork::lockwork)
";

/// What a command prints.
fn printed(command: &mut Command) -> String {
    String::from_utf8_lossy(&run(command).stdout).into_owned()
}

/// Runs a program under each delegate.
fn run_under_each(program: &Path, libraries: &Path) {
    for delegate in DELEGATES {
        run(Command::new("timeout")
            .args(["-s", "KILL", "60"])
            .arg(program)
            .arg(delegate)
            .env("LD_LIBRARY_PATH", libraries));
    }
}

/// Installs below a directory and writes the programs into it.
fn installed(directory: &Path) -> PathBuf {
    let prefix = directory.join("prefix");
    let root = Path::new(CRATE).join("../..");
    run(Command::new(root.join("scripts/install.sh"))
        .arg("library")
        .env("PREFIX", &prefix)
        .env("DESTDIR", ""));
    for (name, text) in [("one.c", C), ("two.cpp", CPP), ("CMakeLists.txt", CMAKE)] {
        fs::write(directory.join(name), text).expect("a file");
    }
    prefix
}

#[test]
fn by_the_flags_of_pkg_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = installed(directory.path());
    let flags = printed(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "lockwork"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    );
    for (compiler, standard, source) in [("cc", "-std=c11", "one.c"), ("c++", "-std=c++17", "two.cpp")] {
        let program = directory.path().join("program");
        run(Command::new(compiler)
            .args([standard, "-Wall", "-Werror", source, "-o"])
            .arg(&program)
            .args(flags.split_whitespace())
            .current_dir(directory.path()));
        run_under_each(&program, &prefix.join("lib"));
    }
}

#[test]
fn by_the_package_of_cmake() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = installed(directory.path());
    run(Command::new("cmake")
        .args(["-S", ".", "-B", "build"])
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
        .current_dir(directory.path()));
    run(Command::new("cmake").args(["--build", "build"]).current_dir(directory.path()));
    for program in ["one", "two"] {
        run_under_each(&directory.path().join("build").join(program), &prefix.join("lib"));
    }
}
