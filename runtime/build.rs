//! Chooses the vectors of `src/lanes` for the target. Stable Rust does not show the DSP
//! instructions of ARMv7E-M and ARMv7-R as a target feature, so the target's name decides.
//!
//! `WATTGATE_LANES=plain` takes the plain ones, to measure what the others gain.

use std::env;

fn main() {
    let target = env::var("TARGET").unwrap_or_default();
    let lanes = match target.split('-').next().unwrap_or_default() {
        _ if env::var("WATTGATE_LANES").is_ok_and(|lanes| lanes == "plain") => "plain",
        "x86_64" => "x86",
        "aarch64" => "neon",
        "thumbv7em" | "armv7r" => "dsp",
        _ => "plain",
    };
    println!("cargo::rustc-check-cfg=cfg(lanes, values(\"x86\", \"neon\", \"dsp\", \"plain\"))");
    println!("cargo::rustc-cfg=lanes=\"{lanes}\"");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WATTGATE_LANES");
}
