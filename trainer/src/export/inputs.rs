//! What a network takes for the modes of a grid: the runtime's features.

use wattgate_runtime::{Axis, AxisFeatures, FEATURES, Grid, INPUTS};

/// The features of each value of an axis, one list for each axis.
pub type GridFeatures = [Vec<[f32; FEATURES]>; 4];

/// The inputs of one mode.
pub type Inputs = [f32; INPUTS];

/// The features of every axis value of a grid.
pub fn axis_features(grid: &Grid) -> GridFeatures {
    Axis::ALL.map(|axis| {
        let values = grid.axis(axis);
        let (first, last) = (values[0], values[values.len() - 1]);
        let scale = AxisFeatures::new(first, last);
        values.iter().map(|&value| scale.of(value)).collect()
    })
}

/// The inputs of every mode, by id.
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
