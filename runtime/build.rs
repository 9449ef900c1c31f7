//! Tells `src/lanes` whether the target has the DSP instructions of ARMv7E-M and ARMv7-R,
//! which stable Rust does not show as a target feature.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-check-cfg=cfg(wattgate_dsp)");
    if target.starts_with("thumbv7em-") || target.starts_with("armv7r-") {
        println!("cargo::rustc-cfg=wattgate_dsp");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
