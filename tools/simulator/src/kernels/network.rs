//! A network as a workload: its kernel calls one after another, synchronised after each batch.
//!
//! The calls are a file that `wattgate-lab compose --calls` writes.

use std::path::Path;

use wattgate_board_tables::Board;
use wattgate_kernels::{Call, Kind, Parameter};

use super::{GpuWork, LAUNCH_MISSES, Library, launch_kcycles, of_kernels};
use crate::csv::{CsvError, Wrong, cells, lines, read};
use crate::unit::Unit;
use crate::workload::{Kernels, Workload};

/// Columns before the parameters.
const LAYER_COLUMNS: [&str; 3] = ["layer", "operators", "kernel"];

/// Reads the calls of a network. The workload's name is that of the file.
pub fn network(path: &Path, board: &Board, unit: &Unit) -> Result<Workload, CsvError> {
    let calls = read(path, parse)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let sane = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name = name.chars().map(sane).collect();
    Ok(network_of(name, &calls, board, unit))
}

fn parse(bytes: &[u8]) -> Result<Vec<Call>, Wrong> {
    let (header, lines) = lines(bytes)?;
    let names = LAYER_COLUMNS
        .into_iter()
        .chain(Parameter::ALL.map(Parameter::name));
    let names: Vec<&str> = names.collect();
    if header != names.join(",") {
        let expected = format!("the columns `{}`", names.join(","));
        return Err(Wrong::new(1, format!("`{header}`"), expected));
    }
    let mut calls = Vec::new();
    for (line, text) in lines {
        calls.push(call(line, &cells(line, text, names.len())?)?);
    }
    match calls.is_empty() {
        true => Err(Wrong::new(1, "no calls", "at least one")),
        false => Ok(calls),
    }
}

fn call(line: usize, cells: &[&str]) -> Result<Call, Wrong> {
    let kernel = cells[LAYER_COLUMNS.len() - 1];
    let kind = Kind::named(kernel).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        Wrong::new(line, format!("`{kernel}`"), format!("one of {known}"))
    })?;
    let mut values = [None; Parameter::ALL.len()];
    for ((value, cell), parameter) in values
        .iter_mut()
        .zip(&cells[LAYER_COLUMNS.len()..])
        .zip(Parameter::ALL)
    {
        if !cell.is_empty() {
            let number = cell.parse().map_err(|_| {
                let found = format!("`{cell}` in `{}`", parameter.name());
                Wrong::new(line, found, "a whole number")
            })?;
            *value = Some(number);
        }
    }
    let value = |parameter| {
        let at = Parameter::ALL
            .iter()
            .position(|known| *known == parameter)?;
        values[at]
    };
    Call::from_parameters(kind, value)
        .map_err(|why| Wrong::new(line, why.to_string(), "a call of a kernel"))
}

/// The workload of some calls, which hold a whole batch. The launches of different kernels cost the CPU the same here: their mean.
pub fn network_of(name: String, calls: &[Call], board: &Board, unit: &Unit) -> Workload {
    let library = Library::for_board(board);
    let kernels: Vec<Kernels> = calls
        .iter()
        .map(|call| {
            let work = GpuWork::from_call(call, &library);
            Kernels {
                count: work.launches,
                mflop_per_sample: 1e-6 * work.flop,
                efficiency: work.efficiency,
                mb_per_sample: 0.0,
                mb: 1e-6 * work.bytes,
                blocks_per_sample: work.blocks,
            }
        })
        .collect();
    let launches: f64 = kernels.iter().map(|group| group.count).sum();
    let kcycles: f64 = calls.iter().map(|call| launch_kcycles(call.kind())).sum();
    of_kernels(
        name,
        kernels,
        unit.launch * kcycles / launches,
        LAUNCH_MISSES * calls.len() as f64 / launches,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Clocks;
    use crate::steady::Steady;

    fn text(rows: &str) -> String {
        let columns = Parameter::ALL.map(Parameter::name).join(",");
        format!("layer,operators,kernel,{columns}\n{rows}")
    }

    #[test]
    fn a_file_of_calls_is_a_workload_and_defects_are_named() {
        let relu = "a,Relu,relu,1,64,56,56,,,,,,,,,,,,,,,,\n";
        let calls = parse(text(&relu.repeat(3)).as_bytes()).expect("calls");
        assert_eq!(calls.len(), 3);
        for (rows, found) in [
            ("", "no calls"),
            ("a,Relu,gelu,1,64,56,56,,,,,,,,,,,,,,,,\n", "`gelu`"),
            (
                "a,Relu,relu,1,x,56,56,,,,,,,,,,,,,,,,\n",
                "`x` in `channels`",
            ),
            ("a,Relu,relu,1,0,56,56,,,,,,,,,,,,,,,,\n", "`channels` is 0"),
            ("a,Relu,relu,1\n", "`a,Relu,relu,1`"),
        ] {
            let wrong = parse(text(rows).as_bytes()).expect_err("refused");
            assert_eq!(wrong.found, found);
        }
        assert!(parse(b"layer,kernel\n").is_err());
    }

    #[test]
    fn the_calls_of_a_network_queue_behind_each_other() {
        let board = Board::named("xavier-agx").expect("a board");
        let row = "a,Conv,conv2d,8,256,56,56,256,3,3,1,1,1,1,1,1,1,,,,,,\n";
        let period = |count: usize| {
            let calls = parse(text(&row.repeat(count)).as_bytes()).expect("calls");
            let workload = network_of("net".to_owned(), &calls, &board, &Unit::NOMINAL);
            let clocks = Clocks::from_knobs(&board, [8, 2_265_600, 1_377_000, 2_133_000]);
            Steady::compute(&board, &Unit::NOMINAL, &workload, &clocks)
                .step
                .period
        };
        // Launch and synchronisation are paid once.
        let (one, ten) = (period(1), period(10));
        assert!(ten > 9.0 * one && ten < 10.0 * one, "{one} {ten}");
    }
}
