//! A kernel corpus: random calls in random power modes on several units of a board.

use std::io::{self, Write};

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_kernels::{Call, Kind, Parameter};

use super::{Bench, Measurement, sample};
use crate::unit::Unit;

/// Largest number of units.
pub const MOST_UNITS: u32 = 1_000;

/// Rows of the other kinds for each row of Conv2d: MIRAGE's 150,000 of MatMul for 1,400,000.
const ROWS_OF_OTHERS: f64 = 150.0 / 1_400.0;

/// What a kernel corpus has.
#[derive(Clone, Copy, Debug)]
pub struct Corpus<'a> {
    pub board: &'a Board,
    /// Number of units, 1 … [`MOST_UNITS`].
    pub units: u32,
    /// Number of rows of Conv2d; other kinds have fewer.
    pub rows: u64,
    /// Seed of units, calls, modes and noise. Equal seeds give equal corpora.
    pub seed: u64,
}

impl Corpus<'_> {
    /// Number of rows of a kind.
    pub fn rows_of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Conv2d => self.rows,
            _ => (self.rows as f64 * ROWS_OF_OTHERS).ceil() as u64,
        }
    }

    /// Number of rows of all kinds.
    pub fn all_rows(&self) -> u64 {
        Kind::ALL.map(|kind| self.rows_of(kind)).iter().sum()
    }

    /// Writes the corpus as CSV. All cores are online, as in MIRAGE.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        // Units of other seeds are other units.
        let first = self.seed.wrapping_mul(u64::from(MOST_UNITS));
        let mut benches: Vec<Bench> = (0..u64::from(self.units))
            .map(|unit| first.wrapping_add(unit))
            .map(|unit| Bench::new(self.board, Unit::drawn(unit), unit))
            .collect();
        let columns = Parameter::ALL.map(Parameter::name).join(",");
        writeln!(
            out,
            "device,unit,kernel,{columns},cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind"
        )?;
        let cores = self.board.core_order.len() as u32;
        for kind in Kind::ALL {
            for row in 0..self.rows_of(kind) {
                let unit = (row % u64::from(self.units)) as usize;
                let call = sample(kind, &mut random);
                let mut clock = |axis: &[u32]| *axis.choose(&mut random).expect("a clock");
                let mode = [
                    cores,
                    clock(&self.board.cpu_khz),
                    clock(&self.board.gpu_khz),
                    clock(&self.board.emc_khz),
                ];
                let measured = benches[unit].measure(&call, mode);
                write!(out, "{},{},{}", self.board.name, unit + 1, kind.name())?;
                write_row(out, &call, mode, measured)?;
            }
        }
        Ok(())
    }
}

fn write_row(
    out: &mut impl Write,
    call: &Call,
    [cores, cpu, gpu, emc]: [u32; 4],
    Measurement { time_ms, power_mw }: Measurement,
) -> io::Result<()> {
    for parameter in Parameter::ALL {
        match call.value(parameter) {
            Some(value) => write!(out, ",{value}")?,
            None => write!(out, ",")?,
        }
    }
    writeln!(
        out,
        ",{cores},{cpu},{gpu},{emc},{time_ms:.5},{power_mw:.0},simulated"
    )
}
