//! Files of models that are made from the shipped one.

use wattgate_runtime::Model;
use wattgate_runtime::format::{Crc32, HEADER_LEN};
use wattgate_runtime::grid::Axis;

use crate::wattgated::MODEL;

/// A model's bytes with the length of the body and the checksum that belong to them.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = (bytes.len() - HEADER_LEN) as u32;
    bytes[20..24].copy_from_slice(&body.to_le_bytes());
    let (summed, rest) = bytes.split_at(HEADER_LEN - 4);
    let checksum = Crc32::new().update(summed).update(&rest[4..]).finish();
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// A model of the board whose output rows were edited: gets the number of the output, its weights and the logarithm
/// that its bias stands for.
fn edited(edit: impl Fn(usize, &mut [u8], &mut f64)) -> Vec<u8> {
    let mut bytes = std::fs::read(MODEL).expect("a model");
    let model = Model::parse(&bytes).expect("a model");
    let (outputs, units) = (usize::from(bytes[6]), usize::from(bytes[8]));
    assert_eq!(bytes[10..14], [0; 4], "one hidden layer");
    // Axis lengths, axis values and the profiled region stand before the layers.
    let varint = |value: u32| (32 - value.leading_zeros()).div_ceil(7).max(1) as usize;
    let values: Vec<u32> = Axis::ALL
        .iter()
        .flat_map(|axis| model.grid().axis(*axis))
        .copied()
        .collect();
    let values_len: usize = values.iter().map(|value| varint(*value)).sum();
    let layers_len = units * 16 + outputs * (units + 8);
    let layers =
        HEADER_LEN + 4 + varint(values.len() as u32) + values_len + 8 + varint(layers_len as u32);
    for output in 0..outputs {
        let row = layers + units * 16 + output * (units + 8);
        let (weights, bias) = bytes[row..row + units + 8].split_at_mut(units);
        let scale = f32::from_le_bytes(bias[4..].try_into().expect("four bytes"));
        let raw = i32::from_le_bytes(bias[..4].try_into().expect("four bytes"));
        let mut log = f64::from(raw) * f64::from(scale);
        edit(output, weights, &mut log);
        bias[..4].copy_from_slice(&((log / f64::from(scale)) as i32).to_le_bytes());
    }
    sealed(bytes)
}

/// A model that predicts the same time and power for each mode, as one of a sweep whose modes were never set: its
/// outputs have no weights.
pub fn flat(watts: f64) -> Vec<u8> {
    edited(|output, weights, log| {
        weights.fill(0);
        *log = match output {
            0 => 100_000_f64.ln(),
            1 => (1_000.0 * watts).ln(),
            _ => 0.02,
        };
    })
}

/// A model whose powers are all too low by a factor: 1,000 for one of a corpus in watts.
pub fn too_low(factor: f64) -> Vec<u8> {
    edited(|output, _, log| {
        if output == 1 {
            *log -= factor.ln();
        }
    })
}
