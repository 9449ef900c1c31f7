//! Boards, steps and paths that several tests use.
#![allow(dead_code)] // Each test file uses a part.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use wattgate_board_tables::Board;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

/// A nominal board that has booted in a mode of nvpmodel.
pub fn booted(board: &str, mode: Option<u32>) -> Tree {
    let board = Board::named(board).expect("a board that can be simulated");
    Tree::new(board, Unit::NOMINAL, 0, mode).expect("a mode of it")
}

/// An Orin Nano with JetPack 6 in MAXN_SUPER.
pub fn nano() -> Tree {
    booted("orin-nano-8-super", Some(2))
}

/// An AGX Orin with JetPack 5 in MAXN.
pub fn agx() -> Tree {
    booted("orin-agx-64", Some(0))
}

pub fn load(tree: &mut Tree, workload: &str) {
    let workload = Workload::named(workload).expect("a shipped workload");
    tree.jetson_mut().set_workload(Some(workload));
}

pub fn pass(tree: &mut Tree, time: Duration) {
    let now = tree.jetson().now();
    tree.advance(now + time);
}

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Executes a line of the control language.
pub fn order(tree: &mut Tree, line: &str) {
    tree.control(line)
        .unwrap_or_else(|error| panic!("{line}: {error}"));
}

pub fn number(tree: &Tree, path: &str) -> i64 {
    let text = tree
        .read(path)
        .unwrap_or_else(|errno| panic!("{path}: {errno}"));
    let number = text.trim().parse();
    number.unwrap_or_else(|_| panic!("{path}: `{text}`"))
}

pub fn write(tree: &mut Tree, path: &str, value: impl ToString) {
    let written = tree.write(path, &value.to_string());
    written.unwrap_or_else(|errno| panic!("{path}: {errno}"));
}

pub fn cpu(core: u32, file: &str) -> String {
    format!("/sys/devices/system/cpu/cpu{core}/cpufreq/{file}")
}

pub fn online(core: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{core}/online")
}

/// A devfreq file of the GPU on JetPack 6.
pub fn gpu(file: &str) -> String {
    format!("/sys/devices/platform/17000000.gpu/devfreq/17000000.gpu/{file}")
}

/// Sets a cluster's or the GPU's clock in the order that is always legal (section 5.1).
fn pin(tree: &mut Tree, path: impl Fn(&str) -> String, [min, max]: [&str; 2], least: i64, to: i64) {
    write(tree, &path(min), least);
    write(tree, &path(max), to);
    write(tree, &path(min), to);
}

pub fn pin_cpu(tree: &mut Tree, core: u32, khz: i64) {
    let files = ["scaling_min_freq", "scaling_max_freq"];
    pin(tree, |file| cpu(core, file), files, 115_200, khz);
}

pub fn pin_gpu(tree: &mut Tree, hz: i64) {
    pin(tree, gpu, ["min_freq", "max_freq"], 306_000_000, hz);
}

pub const GPU_TRUE: &str = "/sys/kernel/debug/bpmp/debug/clk/nafll_gpc0/pto_counter";

pub fn emc(file: &str) -> String {
    format!("/sys/kernel/debug/bpmp/debug/clk/emc/{file}")
}

/// A file of the first power sensor; hwmon is 0 under seed 0.
pub fn ina(file: &str) -> String {
    format!("/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0/{file}")
}

/// The counter of OC3 of a board with one power sensor under seed 0.
pub const OC3: &str = "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon3/oc3_event_cnt";
pub const OC2: &str = "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon3/oc2_event_cnt";

/// Whether a file of measured data is absent. Then it says so on standard error, or panics if `WATTGATE_REQUIRE_DATA` is set.
pub fn missing(path: &Path) -> bool {
    if path.exists() {
        return false;
    }
    // Past the capture of the test runner, so that it is seen.
    let line = format!(
        "SKIPPED: a test needs {}, which is absent\n",
        path.display()
    );
    io::stderr()
        .write_all(line.as_bytes())
        .expect("standard error");
    assert!(
        std::env::var_os("WATTGATE_REQUIRE_DATA").is_none(),
        "WATTGATE_REQUIRE_DATA is set, so the measured data must be present"
    );
    true
}
