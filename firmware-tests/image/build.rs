//! Chooses the processor's start-up code and the board's linker script for the target.

use std::env;

fn main() {
    let target = env::var("TARGET").unwrap_or_default();
    // The board's clock in Hz, from which `src/lib.rs` computes instructions.
    let (processor, script, clock) = match target.split('-').next().unwrap_or_default() {
        "aarch64" => ("aarch64", "virt.ld", 62_500_000),
        "thumbv7em" => ("cortex_m", "mps2-an386.ld", 25_000_000),
        "thumbv8m.main" => ("cortex_m", "mps2-an505.ld", 20_000_000),
        "thumbv7m" => ("cortex_m", "lm3s6965evb.ld", 12_500_000),
        "thumbv6m" => ("cortex_m", "microbit.ld", 16_000_000),
        "armv7r" => ("linked", "cortex-r5.ld", 1),
        "riscv32imac" => ("riscv", "riscv.ld", 1_000_000_000),
        other => panic!("no board for {other}"),
    };
    println!(
        "cargo::rustc-check-cfg=cfg(processor, values(\"aarch64\", \"cortex_m\", \"linked\", \"riscv\"))"
    );
    println!("cargo::rustc-cfg=processor=\"{processor}\"");
    println!("cargo::rustc-env=CLOCK_HZ={clock}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/link");
    println!("cargo::rustc-link-arg-bins=-L{folder}");
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rerun-if-changed={folder}");
}
