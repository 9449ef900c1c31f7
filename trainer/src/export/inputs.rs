//! The network's inputs: the runtime's features of the modes of a grid.

use wattgate_runtime::{Axis, AxisFeatures, FEATURES, Grid, INPUTS};

/// Features by axis and axis value.
pub type GridFeatures = [Vec<[f32; FEATURES]>; 4];

/// The inputs of one mode: the features of its four knobs.
pub type Inputs = [f32; INPUTS];

/// Computes the features of every axis value of a grid.
pub fn axis_features(grid: &Grid) -> GridFeatures {
    Axis::ALL.map(|axis| {
        let values = grid.axis(axis);
        let (first, last) = (values[0], values[values.len() - 1]);
        let scale = AxisFeatures::new(first, last);
        values.iter().map(|&value| scale.of(value)).collect()
    })
}

/// The inputs of every mode, indexed by mode id.
pub fn mode_inputs(axes: &GridFeatures) -> Vec<Inputs> {
    let [cores, cpu, gpu, emc] = axes;
    let mut inputs = Vec::new();
    for c in cores {
        for p in cpu {
            for g in gpu {
                for e in emc {
                    let joined = [c, p, g, e];
                    inputs.push(std::array::from_fn(|i| joined[i / FEATURES][i % FEATURES]));
                }
            }
        }
    }
    inputs
}
