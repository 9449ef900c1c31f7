//! Formats quantities for people.

use wattgate_runtime::{Kilohertz, Microseconds, Milliwatts, PowerMode};

/// Four significant digits in s or ms, or whole µs.
pub fn time(time: Microseconds) -> String {
    let us = f64::from(time.0);
    match us {
        1e6.. => format!("{} s", digits(us / 1e6)),
        1e3.. => format!("{} ms", digits(us / 1e3)),
        _ => format!("{us} µs"),
    }
}

/// Hours with two decimals, or less than one as a time.
pub fn hours(hours: f64) -> String {
    match hours < 1.0 {
        true => time(Microseconds((3.6e9 * hours) as u32)),
        false => format!("{hours:.2} h"),
    }
}

pub fn power(power: Milliwatts) -> String {
    format!("{:.3} W", f64::from(power.0) / 1e3)
}

pub fn frequency(frequency: Kilohertz) -> String {
    format!("{} MHz", f64::from(frequency.0) / 1e3)
}

pub fn mode(mode: PowerMode) -> String {
    let plural = if mode.cores == 1 { "" } else { "s" };
    format!(
        "{} core{plural}, CPU {}, GPU {}, EMC {}",
        mode.cores,
        frequency(mode.cpu),
        frequency(mode.gpu),
        frequency(mode.emc)
    )
}

pub fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2} %"))
}

/// The least and the most time in ms and power in mW of a corpus with their units, so that a wrong unit is seen; empty if neither
/// was measured.
pub fn spans(times_ms: Option<[f64; 2]>, powers_mw: Option<[f64; 2]>) -> String {
    let times = times_ms.map(|ends| {
        let [fastest, slowest] = ends.map(|ms| time(Microseconds((1e3 * ms).round() as u32)));
        format!("fastest step {fastest}, slowest {slowest}")
    });
    let powers = powers_mw.map(|ends| {
        let [least, most] = ends.map(|mw| power(Milliwatts(mw.round() as u32)));
        format!("least power {least}, most {most}")
    });
    let known: Vec<String> = times.into_iter().chain(powers).collect();
    known.join("; ")
}

fn digits(value: f64) -> String {
    let decimals = match value {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_chosen_that_keeps_the_number_readable() {
        assert_eq!(time(Microseconds(17_123_456)), "17.12 s");
        assert_eq!(time(Microseconds(640_033_211)), "640.0 s");
        assert_eq!(time(Microseconds(9_876)), "9.876 ms");
        assert_eq!(time(Microseconds(12)), "12 µs");
        assert_eq!(power(Milliwatts(4_999)), "4.999 W");
        assert_eq!(frequency(Kilohertz(460_800)), "460.8 MHz");
    }
}
