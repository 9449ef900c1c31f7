//! The inputs of kernel models: parameters, work and clocks of each row, as columns. All are logarithms, but
//! for shares.

use std::ops::Range;

use super::demand::Demand;
use super::roofline::{Roofline, TERMS};

/// Inputs of some rows, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// One list per input.
    pub columns: Vec<Vec<f32>>,
}

/// Number of inputs made of the clocks and of the roofline's time.
const CLOCKS: usize = 9;

/// Number of inputs that depend on the mode. All kernels have them, as their last inputs.
const COMMON: usize = CLOCKS + TERMS.len();

impl Columns {
    /// The inputs that depend on the mode.
    pub fn common(&self) -> Range<usize> {
        self.columns.len().saturating_sub(COMMON)..self.columns.len()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }
}

/// The inputs of rows, each a demand with the clocks of its mode: cores, CPU, GPU and memory clock in kHz,
/// 0 for a knob that the board does not vary. What the roofline predicts, and the share of each of its terms,
/// are among them.
pub fn columns<'a>(
    rows: impl ExactSizeIterator<Item = (&'a Demand, [u32; 4])>,
    roofline: &Roofline,
) -> Columns {
    let count = rows.len();
    let mut columns: Vec<Vec<f32>> = Vec::new();
    let mut row: Vec<f32> = Vec::new();
    for (demand, knobs) in rows {
        row.clear();
        row.extend(&demand.inputs);
        let [cores, cpu, gpu, emc] = knobs.map(|knob| f64::from(knob.max(1)).ln());
        let (ln_time, share) = roofline.predict(demand, knobs);
        let more: [f64; CLOCKS] = [
            cores,
            cpu,
            gpu,
            emc,
            gpu - emc,
            cpu - gpu,
            demand.flop.max(1.0).ln() - gpu,
            demand.bytes.ln() - emc,
            ln_time,
        ];
        row.extend(more.map(|value| value as f32));
        row.extend(share.map(|share| share as f32));
        if columns.is_empty() {
            columns = row.iter().map(|_| Vec::with_capacity(count)).collect();
        }
        for (column, value) in columns.iter_mut().zip(&row) {
            column.push(*value);
        }
    }
    Columns { columns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_kernels::{Call, Kind};

    #[test]
    fn every_input_is_a_number() {
        for kind in Kind::ALL {
            let call = Call::from_parameters(kind, |parameter| {
                match kind.parameters().contains(&parameter) {
                    true if parameter.may_be_zero() => Some(0),
                    true if parameter.name().starts_with("dilation") => Some(1),
                    true => Some(4),
                    false => None,
                }
            });
            let demand = Demand::from_call(&call.expect("valid"));
            let rows = [(&demand, [8, 1, 1, 1])];
            let roofline = Roofline::fit([].into_iter());
            let columns = columns(rows.into_iter(), &roofline);
            assert!(
                columns
                    .columns
                    .iter()
                    .flatten()
                    .all(|value| value.is_finite())
            );
        }
    }
}
