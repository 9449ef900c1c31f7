//! Files of the power sensors (`jetson-platform.md`, section 6).

use wattgate_board_tables::{Board, Rail};

use super::super::file::{ChipFile, File, RailFile, SumFile};
use super::listing::{Layout, fixed};
use crate::machine::NOT_SUMMED;

/// The power sensors, numbered from `number`; returns the next number.
pub fn power(layout: &mut Layout, board: &Board, mut number: usize) -> usize {
    let mut chips: Vec<&str> = board.rails.iter().map(|rail| rail.chip.as_str()).collect();
    chips.dedup();
    for (at, chip) in chips.into_iter().enumerate() {
        if board.release() >= 35 {
            let device = format!("/sys/bus/i2c/drivers/ina3221/{chip}");
            let hwmon = layout.hwmon(&device, number, "ina3221");
            hwmon_channels(layout, board, (at, chip), &hwmon);
            let samples = File::Chip(at, ChipFile::Samples);
            layout.put(format!("{hwmon}/samples"), samples);
            let interval = File::Chip(at, ChipFile::Interval);
            layout.put(format!("{hwmon}/update_interval"), interval);
        } else {
            let device = format!("/sys/bus/i2c/drivers/ina3221x/{chip}/iio:device{number}");
            iio_channels(layout, board, chip, &device);
        }
        number += 1;
    }
    number
}

fn hwmon_channels(layout: &mut Layout, board: &Board, (at, chip): (usize, &str), hwmon: &str) {
    let mut summed = Vec::new();
    for channel in 1..=3 {
        // A channel cannot be disabled here.
        let enable = File::Register(&["1"]);
        layout.put(format!("{hwmon}/in{channel}_enable"), enable);
        let is_measured = |rail: &Rail| rail.chip == chip && rail.channel == channel;
        let Some(rail) = board.rails.iter().position(is_measured) else {
            layout.put(format!("{hwmon}/in{channel}_label"), fixed("NC\n"));
            layout.put(format!("{hwmon}/in{channel}_input"), fixed("0\n"));
            layout.put(format!("{hwmon}/curr{channel}_input"), fixed("0\n"));
            continue;
        };
        if board.rails[rail].label != NOT_SUMMED {
            summed.push(rail);
        }
        let files = [
            (format!("in{channel}_label"), RailFile::Label),
            (format!("in{channel}_input"), RailFile::Millivolts),
            (
                format!("in{}_input", channel + 3),
                RailFile::ShuntMicrovolts,
            ),
            (format!("curr{channel}_input"), RailFile::Milliamperes),
            (format!("shunt{channel}_resistor"), RailFile::Shunt),
            (format!("curr{channel}_max"), RailFile::Warn),
            (format!("curr{channel}_crit"), RailFile::Crit),
            (format!("curr{channel}_max_alarm"), RailFile::WarnAlarm),
            (format!("curr{channel}_crit_alarm"), RailFile::CritAlarm),
        ];
        for (name, file) in files {
            layout.put(format!("{hwmon}/{name}"), File::Rail(rail, file));
        }
    }
    let label = fixed("sum of shunt voltages\n");
    layout.put(format!("{hwmon}/in7_label"), label);
    let sums = [
        ("in7_input", SumFile::ShuntMicrovolts),
        ("curr4_input", SumFile::Milliamperes),
        ("curr4_crit", SumFile::Crit),
        ("curr4_crit_alarm", SumFile::CritAlarm),
    ];
    for (name, file) in sums {
        let sum = File::Sum(at, summed.clone(), file);
        layout.put(format!("{hwmon}/{name}"), sum);
    }
}

fn iio_channels(layout: &mut Layout, board: &Board, chip: &str, device: &str) {
    layout.put(format!("{device}/name"), fixed("ina3221x\n"));
    for (rail, description) in board.rails.iter().enumerate() {
        if description.chip != chip {
            continue;
        }
        let channel = description.channel - 1;
        let files = [
            (format!("rail_name_{channel}"), RailFile::Label),
            (format!("in_voltage{channel}_input"), RailFile::Millivolts),
            (format!("in_current{channel}_input"), RailFile::Milliamperes),
            (format!("in_power{channel}_input"), RailFile::Milliwatts),
            (format!("warn_current_limit_{channel}"), RailFile::Warn),
            (format!("crit_current_limit_{channel}"), RailFile::Crit),
        ];
        for (name, file) in files {
            layout.put(format!("{device}/{name}"), File::Rail(rail, file));
        }
    }
}
