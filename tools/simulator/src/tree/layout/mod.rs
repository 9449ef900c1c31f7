//! Which files a board has, by its chip and its release of L4T.
//!
//! Sources: `jetson-platform.md`, sections 5 (clocks), 6 (power), 7 (heat, fan), 9 (identity).

mod clocks;
mod heat;
mod listing;
mod power;

use wattgate_board_tables::Board;

use super::conf::conf;
use super::file::File;
use crate::unit::Unit;
use listing::fixed;
pub use listing::{Alias, Layout, ranges};

/// Linux's id of the boot.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The text of a boot id: a UUID of version 4.
pub fn boot_id(random: u128) -> String {
    let id = random & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{id:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-") + "\n"
}

/// The files of a unit of a board whose first hwmon or iio device has this number.
pub fn files_of(board: &Board, unit: &Unit, first_number: usize) -> Layout {
    let mut layout = Layout::default();
    identity(&mut layout, board, unit);
    clocks::cpus(&mut layout, board);
    clocks::gpu(&mut layout, board);
    clocks::memory(&mut layout, board);
    heat::thermal(&mut layout, board);
    heat::cooling(&mut layout, board);
    let number = power::power(&mut layout, board, first_number);
    heat::fan(&mut layout, board, number);
    layout.put("/etc/nvpmodel.conf", fixed(conf(board)));
    layout.put(BOOT_ID, fixed(boot_id(0)));
    layout.put("/var/lib/nvpmodel/status", File::Status);
    layout.alias_lengths = layout.aliases.keys().map(String::len).collect();
    layout
}

fn identity(layout: &mut Layout, board: &Board, unit: &Unit) {
    let tree = "/proc/device-tree";
    layout.put(format!("{tree}/model"), fixed(board.model.clone() + "\0"));
    let compatible: String = board
        .compatible
        .iter()
        .map(|it| format!("{it}\0"))
        .collect();
    layout.put(format!("{tree}/compatible"), fixed(compatible));
    let serial_number = unit.serial_number() + "\0";
    layout.put(format!("{tree}/serial-number"), fixed(serial_number));
    layout.alias("/sys/firmware/devicetree/base", tree);
    if let Some((release, revision)) = &board.l4t {
        let figures = board.figures();
        let text = format!(
            "# R{release} (release), REVISION: {revision}, GCID: 0, BOARD: {figures}, \
             EABI: aarch64, DATE: {figures}\n"
        );
        layout.put("/etc/nv_tegra_release", fixed(text));
    }
}
