//! Generic models: what the modes of a known board are like under any workload. Each was learned over the simulated workloads of a
//! simulated board (`weights/README.md`). Of the modes' powers only the order is used.

use crate::compatibility::board_name;

/// Names of boards with their generic models.
const MODELS: [(&str, &[u8]); 5] = [
    (
        "orin-agx-64",
        include_bytes!("../../../weights/orin-agx-64-generic.wgt"),
    ),
    (
        "orin-nano-8",
        include_bytes!("../../../weights/orin-nano-8-super-generic.wgt"),
    ),
    (
        "orin-nx-16",
        include_bytes!("../../../weights/orin-nx-16-generic.wgt"),
    ),
    ("tx2", include_bytes!("../../../weights/tx2-generic.wgt")),
    ("xavier-agx", OTHER),
];

/// The generic model by which other boards are taken: that of the board with the most clocks.
pub const OTHER: &[u8] = include_bytes!("../../../weights/xavier-agx-generic.wgt");

/// The generic model of the board with these `compatible` strings.
pub fn model(compatible: &[String]) -> Option<&'static [u8]> {
    let name = board_name(compatible)?;
    let known = MODELS.iter().find(|(known, _)| *known == name);
    known.map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use wattgate_board_tables::Board;
    use wattgate_runtime::Model;

    use super::*;
    use crate::compatibility::board_mismatch;

    #[test]
    fn each_generic_model_is_of_its_board_and_has_power() {
        for (name, bytes) in MODELS {
            let model = Model::parse(bytes).expect(name);
            let provenance = model.provenance().expect(name);
            assert!(provenance.device.starts_with(name), "{name}");
            assert_eq!(provenance.workload, "generic");
            assert!(model.has_power());
        }
    }

    #[test]
    fn a_board_has_its_own_generic_model() {
        for name in ["orin-agx-64", "orin-nano-8-super", "tx2", "xavier-agx"] {
            let board = Board::named(name).expect(name);
            let model = Model::parse(model(&board.compatible).expect(name)).expect(name);
            let device = model.provenance().expect(name).device;
            assert_eq!(board_mismatch(device, &board.compatible), None, "{name}");
        }
        assert_eq!(model(&["nvidia,unheard-of".to_owned()]), None);
    }
}
