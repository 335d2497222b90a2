//! Link options of liblockwork.so.

fn main() {
    // initfirst: our constructor runs before every other one, so that the choice of lock is made and the fork handler is
    // the first. nodelete: locks in the program refer to our memory for ever. now: no lazy binding on a lock path.
    for option in ["initfirst", "nodelete", "now", "relro"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,{option}");
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblockwork.so");
    println!("cargo::rerun-if-changed=build.rs");
}
