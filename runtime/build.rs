//! Chooses the vectors of `src/lanes` by the target's features: a target without a floating-point
//! unit may have none of the vector instructions that its processor is known for.
//!
//! Stable Rust does not show the DSP instructions of ARMv7E-M and ARMv7-R as a target feature.
//! Both architectures always have them, so there the target's name decides.
//!
//! `WATTGATE_LANES=plain` takes the plain ones, to measure what the others gain.

use std::env;

fn main() {
    let variable = |name| env::var(name).unwrap_or_default();
    let features = variable("CARGO_CFG_TARGET_FEATURE");
    let has = |wanted| features.split(',').any(|feature| feature == wanted);
    let target = variable("TARGET");
    let lanes = match target.split('-').next().unwrap_or_default() {
        _ if variable("WATTGATE_LANES") == "plain" => "plain",
        "x86_64" if has("sse2") => "x86",
        "aarch64" if has("neon") => "neon",
        "thumbv7em" | "armv7r" => "dsp",
        _ => "plain",
    };
    println!("cargo::rustc-check-cfg=cfg(lanes, values(\"x86\", \"neon\", \"dsp\", \"plain\"))");
    println!("cargo::rustc-cfg=lanes=\"{lanes}\"");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WATTGATE_LANES");
}
