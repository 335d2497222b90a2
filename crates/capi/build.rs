//! Link options of liblockwork_c.so.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblockwork_c.so.0");
    // A thread that ends gives back what it has of ours by a function of ours, also after `dlclose`; servers are threads of ours.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
