//! Values of options that several commands take.

use wattgate_scenarios::Holder;
use wattgate_simulated_board::load::Kind;
use wattgate_simulated_board::sampling::SAMPLES;

use crate::failure::Failure;

/// `--kind`: a built-in load.
pub fn kind(value: String) -> Result<Kind, Failure> {
    Kind::named(&value).ok_or(Failure::Value {
        option: "--kind",
        value,
        expected: "a kind of `load --help`",
    })
}

/// `--samples`: the number of samples in one result of the power sensor.
pub fn samples(value: String) -> Result<u32, Failure> {
    let number = value.parse().ok();
    let number = number.filter(|number| SAMPLES.contains(number));
    number.ok_or(Failure::Value {
        option: "--samples",
        value,
        expected: "1, 4, 16, 64, 128, 256, 512 or 1024, which the driver takes",
    })
}

/// `--governor`: who holds the limit.
pub fn governor(value: String) -> Result<Holder, Failure> {
    let mut known = Holder::SIMULATED.into_iter().chain([Holder::Once]);
    let found = known.find(|holder| holder.name().replace(' ', "-") == value);
    found.ok_or(Failure::Value {
        option: "--governor",
        value,
        expected: "wattgate, stepper, open-loop, once, preset or maxn",
    })
}

/// `--seeds`: the number of runs for each row.
pub fn seeds(value: String) -> Result<u64, Failure> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or(Failure::Value {
        option: "--seeds",
        value,
        expected: "a number above 0",
    })
}
