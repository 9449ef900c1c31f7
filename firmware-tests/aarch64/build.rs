//! Hands the linker script to the linker.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/virt.ld");
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rerun-if-changed={script}");
}
