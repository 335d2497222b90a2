//! Link options of liblockwork_c.so.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblockwork_c.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
