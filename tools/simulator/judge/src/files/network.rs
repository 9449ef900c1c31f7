//! The calls of a network: a file that `wattgate-lab compose --calls` writes.

use std::path::Path;

use wattgate_board_tables::Board;
use wattgate_cli::delimited::columns::Layout;
use wattgate_cli::delimited::fields::{Named, bad, count, text};
use wattgate_cli::delimited::{Defect, FileError, Refusal, Table};
use wattgate_kernels::{Call, Kind, Parameter};
use wattgate_simulated_board::kernels::network_of;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

static LAYOUT: Layout = Layout {
    what: "a file of calls",
    columns: &["kernel"],
    and: " and those of its kernels' parameters",
    ..Layout::NONE
};

/// Reads the calls of a network. The workload's name is that of the file.
pub fn read(path: &Path, board: &Board, unit: &Unit) -> Result<Workload, FileError> {
    let calls = calls(&mut super::open(path, &LAYOUT)?)?;
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

fn calls<R: std::io::Read>(table: &mut Table<R>) -> Result<Vec<Call>, FileError> {
    let kernel = table.required("kernel")?;
    let mut places = [None; Parameter::ALL.len()];
    for (place, parameter) in places.iter_mut().zip(Parameter::ALL) {
        *place = table.optional(parameter.name())?;
    }
    table.rows(|row| -> Result<Call, Defect> {
        let kernel = text(("kernel", row.field(kernel)))?;
        let kind = Kind::named(kernel).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            bad("kernel", format!("one of {known}"), kernel)
        })?;
        let mut values = [None; Parameter::ALL.len()];
        for ((value, place), parameter) in values.iter_mut().zip(places).zip(Parameter::ALL) {
            let field = place.map_or(&b""[..], |place| row.field(place));
            *value = number((parameter.name(), field))?;
        }
        let call = Call::from_parameters(kind, |parameter| values[parameter as usize]);
        Ok(call.map_err(|why| bad("kernel", format!("a call of a kernel ({why})"), kernel))?)
    })
}

/// A whole number, or `None` for a blank.
fn number(field: Named<'_>) -> Result<Option<u32>, Refusal> {
    match field.1 {
        b"" => Ok(None),
        _ => count(field, u32::MAX, "a whole number, or a blank").map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_simulated_board::pipeline::Clocks;
    use wattgate_simulated_board::steady::Steady;

    fn parse(rows: &str) -> Result<Vec<Call>, String> {
        let columns = Parameter::ALL.map(Parameter::name).join(",");
        let text = format!("layer,operators,kernel,{columns}\n{rows}");
        let table = Table::open(Path::new("net.csv"), text.as_bytes(), &LAYOUT);
        let calls = table.and_then(|mut table| calls(&mut table));
        calls.map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_of_calls_is_a_workload_and_defects_are_named() {
        let relu = "a,Relu,relu,1,64,56,56,,,,,,,,,,,,,,,,\n";
        assert_eq!(parse(&relu.repeat(3)).expect("calls").len(), 3);
        let without_channels = "line 2: column `kernel`: expected a call of a kernel (`channels` is 0, expected 1 or more), found `relu`";
        for (rows, found) in [
            ("", "no rows after the header"),
            (
                "a,Relu,gelu,1,64,56,56,,,,,,,,,,,,,,,,\n",
                "line 2: column `kernel`: expected one of conv2d, batch_norm2d, mat_mul, relu, max_pool2d, adaptive_avg_pool2d, add, cat, found `gelu`",
            ),
            (
                "a,Relu,relu,1,x,56,56,,,,,,,,,,,,,,,,\n",
                "line 2: column `channels`: expected a whole number, or a blank, found `x`",
            ),
            ("a,Relu,relu,1,0,56,56,,,,,,,,,,,,,,,,\n", without_channels),
            (
                "a,Relu,relu,1\n",
                "line 2: expected 23 fields as in the header, found 4; complete the row, or delete it",
            ),
        ] {
            assert_eq!(parse(rows), Err(format!("net.csv: {found}")));
        }
        let table = Table::open(Path::new("net.csv"), &b"layer,operators\n"[..], &LAYOUT);
        let refused = table.and_then(|mut table| calls(&mut table));
        assert_eq!(
            refused.expect_err("refused").to_string(),
            "net.csv: line 1: column `kernel`: missing; a file of calls has the columns kernel and those of its kernels' \
             parameters"
        );
    }

    #[test]
    fn the_calls_of_a_network_queue_behind_each_other() {
        let board = Board::named("xavier-agx").expect("a board");
        let row = "a,Conv,conv2d,8,256,56,56,256,3,3,1,1,1,1,1,1,1,,,,,,\n";
        let period = |count: usize| {
            let calls = parse(&row.repeat(count)).expect("calls");
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
