//! The total power, its errors, and failing sensors.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::common::{
    self, Simulated, apply, boards, booted, description, discover, highest, load, lowest, total,
};
use wattgate_board::{Board, Files, SampleFault};
use wattgate_runtime::estimator::MOST_CHIPS;
use wattgate_runtime::{Milliseconds, Milliwatts, Sample};
use wattgate_simulated_board::tree::{Errno, Tree};
use wattgate_simulated_board::unit::Unit;

const UPDATE: Duration = Duration::from_millis(430);

/// Low-pass of the true power of each rail, in mW.
struct Truth(Vec<f64>);

impl Truth {
    fn new(files: &Simulated) -> Self {
        Self(vec![0.0; files.tree.jetson().board().rails.len()])
    }

    /// Advances time. The power changes at whole ms, except in events of 1.07 ms.
    fn pass(&mut self, files: &mut Simulated, time: Duration) {
        let left = (-0.001 / UPDATE.as_secs_f64()).exp();
        for _ in 0..time.as_millis() {
            files.wait(Duration::from_millis(1));
            let jetson = files.tree.jetson();
            for (rail, low_pass) in jetson.board().rails.iter().zip(&mut self.0) {
                let domains = rail.domains.iter();
                let watts: f64 = domains.map(|&domain| jetson.watts().get(domain)).sum();
                *low_pass = 1000.0 * watts + (*low_pass - 1000.0 * watts) * left;
            }
        }
    }

    /// The low-pass of the whole module's power.
    fn total_mw(&self, files: &Simulated) -> f64 {
        let rails = files.tree.jetson().board().rails.iter();
        let of_total = rails.zip(&self.0).filter(|(rail, _)| rail.total);
        of_total.map(|(_, low_pass)| low_pass).sum()
    }
}

#[test]
fn power_is_the_low_passed_true_power_within_the_sensor_s_steps() {
    for name in boards() {
        let described = description(name);
        for mode in [lowest(name), highest(name)] {
            let mut files = booted(name);
            let mut board = discover(&files);
            apply(&mut board, &mut files, mode);
            load(&mut files);
            let mut truth = Truth::new(&files);
            truth.pass(&mut files, 12 * UPDATE);
            for _ in 0..40 {
                truth.pass(&mut files, Duration::from_millis(87));
                let truth = truth.total_mw(&files);
                let power = total(&board.sample(&files).expect("a reading"));
                // Half a step (20 µV) of the shunt's voltage at the nominal bus voltage, up to
                // 16 mV of drift of the bus voltage, and half its step of 8 mV.
                let rails = described.rails.iter().filter(|rail| rail.total);
                let bound: f64 = rails
                    .map(|rail| {
                        let ma = 20.0 / rail.shunt_mohm.unwrap_or(5.0) + 0.5;
                        let share = truth / rail.millivolts * 20.0;
                        ma * rail.millivolts / 1000.0 + share
                    })
                    .sum();
                let off = f64::from(power.0) - truth;
                assert!(
                    off.abs() < bound + 1.0,
                    "{name}, {mode}: {power}, {truth:.0} mW"
                );
            }
        }
    }
}

/// VIN_SYS_5V0 contains VDDQ_VDD2_1V8AO, so its reading does not change the total.
#[test]
fn a_rail_inside_another_one_is_not_counted_twice() {
    for name in boards()
        .into_iter()
        .filter(|name| name.starts_with("orin-agx"))
    {
        let mut files = booted(name);
        let mut board = discover(&files);
        let mut rails: Vec<&str> = board.rails().collect();
        rails.sort_unstable();
        assert_eq!(
            rails,
            ["VDD_CPU_CV", "VDD_GPU_SOC", "VIN_SYS_5V0"],
            "{name}"
        );
        assert_eq!(board.chips(), 1, "{name}");
        let before = board.sample(&files).expect("a reading");
        for current in currents(&files, "VDDQ_VDD2_1V8AO") {
            files.shown.insert(current, Ok(b"4000\n".to_vec()));
        }
        assert_eq!(board.sample(&files), Ok(before), "{name}");
        let all: u32 = ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"]
            .iter()
            .map(|label| {
                let [millivolts, milliamperes] = reading(&files, label);
                (millivolts * milliamperes) as u32
            })
            .sum();
        assert_eq!(total(&before), Milliwatts(all.div_ceil(1000)), "{name}");
    }
}

/// The reading of a rail, in mV and mA.
fn reading(files: &Simulated, label: &str) -> [i64; 2] {
    let jetson = files.tree.jetson();
    let rails = &jetson.board().rails;
    let at = rails.iter().position(|rail| rail.label == label);
    let reading = jetson.channel(at.expect("a rail")).reading();
    [reading.millivolts, reading.milliamperes]
}

/// The paths of a rail's current with JetPack 5, found by its label.
fn currents(files: &Simulated, label: &str) -> Vec<String> {
    let class = "/sys/class/hwmon";
    let devices = files.tree.list(class).expect("a class").into_iter();
    let channels = devices.flat_map(|device| (1..=3).map(move |channel| (device.clone(), channel)));
    let of_label = channels.filter(|(device, channel)| {
        let text = files
            .tree
            .read(&format!("{class}/{device}/in{channel}_label"));
        text.is_ok_and(|text| text.trim() == label)
    });
    let paths: Vec<String> = of_label
        .map(|(device, channel)| format!("{class}/{device}/curr{channel}_input"))
        .collect();
    assert_eq!(paths.len(), 1, "{label}");
    paths
}

#[test]
fn power_is_rounded_up() {
    let mut files = booted("orin-nano-8-super");
    let device = "/sys/class/hwmon/hwmon0";
    let mut show = |millivolts: &str, milliamperes: &str| {
        let texts = [("in1", millivolts), ("curr1", milliamperes)];
        for (file, text) in texts {
            let path = format!("{device}/{file}_input");
            files.shown.insert(path, Ok(text.as_bytes().to_vec()));
        }
        // A newly discovered board reads the voltage.
        let sample = discover(&files).sample(&files);
        sample.map(|sample| total(&sample))
    };
    assert_eq!(show("5000\n", "1600\n"), Ok(Milliwatts(8000)));
    assert_eq!(show("5001\n", "1600\n"), Ok(Milliwatts(8002)));
    // A rail without load shows its offset.
    assert_eq!(show("5000\n", "-16\n"), Ok(Milliwatts(0)));
    let mut fault = |volts, amperes| show(volts, amperes).expect_err("a fault").fault;
    assert_eq!(fault("5000", "-41"), SampleFault::Negative(-41));
    assert_eq!(fault("0", "1600"), SampleFault::NoVoltage(0));
    assert_eq!(fault("-8", "1600"), SampleFault::NoVoltage(-8));
    let full = |millivolts, milliamperes| SampleFault::FullScale {
        millivolts,
        milliamperes,
    };
    assert_eq!(fault("32760", "1600"), full(32760, 1600));
    assert_eq!(fault("5000", "32760"), full(5000, 32760));
    assert_eq!(fault("5000", "9223372036854775807"), full(5000, i64::MAX));
    for text in [
        "",
        "\n",
        "N/A",
        "1600 mA",
        "1e3",
        "9223372036854775808",
        "\0\0",
    ] {
        assert_eq!(fault("5000", text), SampleFault::NotANumber, "{text:?}");
    }
}

#[test]
fn errors_of_the_system_are_named() {
    let mut files = booted("xavier-agx");
    let mut board = discover(&files);
    let current = "/sys/bus/i2c/drivers/ina3221x/1-0041/iio:device1/in_current1_input";
    let mut with = |errno| {
        files.shown.insert(current.to_owned(), Err(errno));
        let error = board.sample(&files).expect_err("a fault");
        assert_eq!(&*error.rail, "VDDRQ");
        error.to_string()
    };
    assert_eq!(
        with(Errno::Enoent),
        "power of rail VDDRQ: the sensor's file is missing"
    );
    assert_eq!(with(Errno::Eagain), "power of rail VDDRQ: no reading now");
    assert_eq!(
        with(Errno::Eio),
        "power of rail VDDRQ: cannot be read: Input/output error (os error 5)"
    );
    files.shown.clear();
    assert!(board.sample(&files).is_ok());
}

/// A fault of a rail outside the total does not matter.
#[test]
fn a_failing_sensor_is_an_error_and_never_a_smaller_sum() {
    for name in boards() {
        for rail in &description(name).rails {
            for (word, fault) in [
                ("missing", SampleFault::Missing),
                (
                    "absurd",
                    SampleFault::FullScale {
                        millivolts: 0,
                        milliamperes: 0,
                    },
                ),
                ("flipped", SampleFault::Negative(0)),
            ] {
                let mut files = booted(name);
                let mut board = discover(&files);
                apply(&mut board, &mut files, highest(name));
                load(&mut files);
                files.wait(2 * UPDATE);
                let before = board.sample(&files).expect("a reading");
                files
                    .tree
                    .control(&format!("sensor {} {word}", rail.label))
                    .expect("a rail");
                match board.sample(&files) {
                    Err(error) => {
                        let same = std::mem::discriminant(&fault);
                        assert_eq!(
                            std::mem::discriminant(&error.fault),
                            same,
                            "{name}: {error}"
                        );
                        assert_eq!(*error.rail, *rail.label, "{name}");
                        assert!(rail.total, "{name}: {error}");
                    }
                    // A negative current within the offset counts as zero.
                    Ok(after) if word == "flipped" && rail.total => {
                        let lost = total(&before).0 - total(&after).0;
                        assert!(
                            lost <= 40 * rail.millivolts as u32 / 1000,
                            "{name}: {}",
                            rail.label
                        );
                    }
                    Ok(after) => {
                        assert!(!rail.total, "{name}: {} is {word}", rail.label);
                        assert_eq!(after, before, "{name}");
                    }
                }
            }
        }
    }
}

/// The files of a board, and how often each was read.
struct Counted<'a>(&'a Simulated, RefCell<BTreeMap<String, u32>>);

impl<'a> Counted<'a> {
    fn new(files: &'a Simulated) -> Self {
        Self(files, RefCell::default())
    }

    /// How often each file was read since the last call.
    fn take(&self) -> BTreeMap<String, u32> {
        self.1.take()
    }
}

impl Files for Counted<'_> {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let path_text = path.to_str().expect("a path of a tree").to_owned();
        *self.1.borrow_mut().entry(path_text).or_default() += 1;
        self.0.read(path, buffer)
    }

    fn write(&mut self, path: &Path, _: &str) -> io::Result<()> {
        panic!("{} is written", path.display());
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.0.list(directory)
    }

    fn wait(&mut self, _: Duration) {}
}

fn is_voltage(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.starts_with("in_voltage") || file.starts_with("in") && !file.starts_with("in_current")
}

/// While no current moves, a rail's voltage is read in one sample of eight; rails take turns.
#[test]
fn each_sample_reads_all_currents_and_at_most_one_voltage() {
    for name in boards() {
        let files = booted(name);
        let mut board = discover(&files);
        let rails = board.rails().count() as u32;
        let counted = Counted::new(&files);
        // The first sample reads all voltages.
        assert!(board.sample(&counted).is_ok());
        assert_eq!(counted.take().values().sum::<u32>(), 2 * rails, "{name}");
        let mut voltages = 0;
        for _ in 0..8 {
            assert!(board.sample(&counted).is_ok());
            let (of_voltages, of_currents): (Vec<_>, Vec<_>) = counted
                .take()
                .into_iter()
                .partition(|(path, _)| is_voltage(path));
            assert_eq!(of_currents.len() as u32, rails, "{name}");
            assert!(of_currents.iter().all(|(_, count)| *count == 1), "{name}");
            assert!(of_voltages.len() <= 1, "{name}: {of_voltages:?}");
            voltages += of_voltages.len() as u32;
        }
        assert_eq!(
            voltages, rails,
            "{name}: each voltage once in eight samples"
        );
    }
}

#[test]
fn a_voltage_is_reused_for_eight_samples_and_read_again_after_a_fault() {
    let mut files = booted("orin-nano-8");
    let mut board = discover(&files);
    let device = "/sys/class/hwmon/hwmon0";
    let show = |files: &mut Simulated, file: &str, text: &str| {
        let path = format!("{device}/{file}_input");
        files.shown.insert(path, Ok(text.as_bytes().to_vec()));
    };
    show(&mut files, "in1", "5000\n");
    show(&mut files, "curr1", "1000\n");
    let power = |board: &mut Board, files: &Simulated| board.sample(files).map(|it| total(&it).0);
    assert_eq!(power(&mut board, &files), Ok(5_000));
    // A step of the register does not move the power.
    show(&mut files, "in1", "4992\n");
    for _ in 0..7 {
        assert_eq!(power(&mut board, &files), Ok(5_000));
    }
    assert_eq!(power(&mut board, &files), Ok(4_992));
    show(&mut files, "in1", "5000\n");
    assert_eq!(power(&mut board, &files), Ok(4_992));
    show(&mut files, "curr1", "N/A\n");
    assert!(power(&mut board, &files).is_err());
    show(&mut files, "curr1", "1000\n");
    assert_eq!(power(&mut board, &files), Ok(5_000));
}

#[test]
fn a_voltage_is_read_when_the_current_has_moved_and_until_it_stands() {
    let mut files = booted("orin-nano-8");
    let mut board = discover(&files);
    for (millivolts, milliamperes, milliwatts) in [
        (5_000, 1_000, 5_000),
        (4_900, 1_000, 5_000),
        // One step of 8 mA may be noise.
        (4_900, 1_008, 5_040),
        (4_800, 1_016, 4_877),
        (4_700, 1_016, 4_776),
        (4_700, 1_016, 4_776),
        (4_600, 1_016, 4_674),
    ] {
        let mut show = |file: &str, value: u32| {
            let path = format!("/sys/class/hwmon/hwmon0/{file}_input");
            files
                .shown
                .insert(path, Ok(format!("{value}\n").into_bytes()));
        };
        show("in1", millivolts);
        show("curr1", milliamperes);
        let sample = board.sample(&files).expect("a sample");
        assert_eq!(total(&sample), Milliwatts(milliwatts));
    }
}

/// The supply sags by a fifth under constant power: the currents rise, and no sample multiplies them
/// with a voltage from before.
#[test]
fn a_step_of_the_supply_is_no_step_of_the_power() {
    for (name, before, after) in [
        ("orin-agx-64", "supply 19000 0", "supply 15200 0"),
        ("orin-nano-8-super", "supply 5000 0", "supply 4000 0"),
    ] {
        for samples in [64, 512] {
            let mut files = booted(name);
            files.tree.control(before).expect("a command");
            let mut board = discover(&files);
            assert!(board.set_averaging(&mut files, samples).is_ok());
            load(&mut files);
            let interval = Duration::from_millis(45);
            for _ in 0..100 {
                files.wait(interval);
                assert!(board.sample(&files).is_ok());
            }
            files.tree.control(after).expect("a command");
            for count in 0..40 {
                files.wait(interval);
                let labels: Vec<String> = board.rails().map(str::to_owned).collect();
                let millivolts_and_milliamperes = |label: &String| reading(&files, label);
                let shown: i64 = labels
                    .iter()
                    .map(millivolts_and_milliamperes)
                    .map(|[mv, ma]| mv * ma)
                    .sum();
                let sample = total(&board.sample(&files).expect("a sample"));
                let error = i64::from(sample.0) - shown / 1_000;
                let steps = board.sensor_steps().map(|step| i64::from(step.0));
                let most = (3 * steps.iter().sum::<i64>()).max(shown / 100_000);
                assert!(
                    error.abs() <= most,
                    "{name}, {samples}, {count}: {error}, not {most}"
                );
            }
        }
    }
}

#[test]
fn each_chip_shows_the_power_of_its_own_rails() {
    for name in boards() {
        let files = booted(name);
        let mut board = discover(&files);
        let sample = board.sample(&files).expect("a reading");
        let jetson = files.tree.jetson();
        let rails = jetson.board().rails.iter().filter(|rail| rail.total);
        let mut of_chips: BTreeMap<&str, u32> = BTreeMap::new();
        for rail in rails {
            let [millivolts, milliamperes] = reading(&files, &rail.label);
            *of_chips.entry(rail.chip.as_str()).or_default() += (millivolts * milliamperes) as u32;
        }
        assert_eq!(board.chips(), of_chips.len(), "{name}");
        let mut expected = [Milliwatts(0); MOST_CHIPS];
        for (chip, microwatts) in expected.iter_mut().zip(of_chips.values()) {
            *chip = Milliwatts(microwatts.div_ceil(1000));
        }
        assert_eq!(sample.powers(), Some(expected), "{name}");
    }
}

/// A chip without a rail of the total gets no number, even if its device comes first.
#[test]
fn a_chip_that_is_not_in_the_total_does_not_shift_the_others() {
    let mut files = booted("orin-agx-64");
    let class = "/sys/class/hwmon";
    // As if the drivers were bound in the other order.
    for (device, labels) in [
        ("hwmon0", ["NC", "VDDQ_VDD2_1V8AO", "NC"]),
        ("hwmon1", ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"]),
    ] {
        for (channel, label) in (1..).zip(labels) {
            let path = format!("{class}/{device}/in{channel}_label");
            files
                .shown
                .insert(path, Ok(format!("{label}\n").into_bytes()));
            let current = format!("{class}/{device}/curr{channel}_input");
            files.shown.insert(current, Ok(b"800\n".to_vec()));
            let voltage = format!("{class}/{device}/in{channel}_input");
            files.shown.insert(voltage, Ok(b"5000\n".to_vec()));
        }
    }
    let interval = format!("{class}/hwmon1/update_interval");
    files.shown.insert(interval, Ok(b"54\n".to_vec()));
    let mut board = discover(&files);
    assert_eq!(board.chips(), 1);
    let sample = board.sample(&files).expect("a reading");
    let zero = Milliwatts(0);
    assert_eq!(
        sample,
        Sample::from_chips([Milliwatts(12_000), zero, zero, zero])
    );
    assert_eq!(board.time_constants(&files)[0], Milliseconds(54));
    let [first, others @ ..] = board.sensor_steps();
    assert!(first.0 > 0 && others == [zero; 3], "{first}, {others:?}");
}

/// Units have random offsets and gains; some rails have no load.
#[test]
fn every_unit_of_a_board_can_be_sampled_when_idle() {
    for name in boards() {
        for seed in 0..50 {
            let tree = Tree::new(description(name), Unit::drawn(seed), seed, None);
            let mut files = Simulated::new(tree.expect("a default mode"));
            let mut board = discover(&files);
            apply(&mut board, &mut files, lowest(name));
            files.wait(2 * UPDATE);
            let sample = board.sample(&files);
            assert!(sample.is_ok(), "{name}, unit {seed}: {sample:?}");
        }
    }
}

/// The data sheet's typical offset of 40 µV: 20 mA of a shunt of 2 mΩ, 8 mA of one of 5 mΩ.
#[test]
fn offset_and_steps_follow_from_shunts_and_voltages() {
    let found = |files: &Simulated| errors(&discover(files));
    // One chip with two rails of 12 V and one of 5 V; their errors are independent.
    assert_eq!(found(&booted("orin-agx-64")), (354, [354, 0, 0, 0]));
    assert_eq!(found(&booted("orin-nano-8")), (40, [40, 0, 0, 0]));
    let mut files = booted("orin-nano-8");
    let broken = files.tree.control("sensor VDD_IN absurd");
    broken.expect("a rail");
    // The voltage is at full scale, so the highest of any module is assumed: 20 V.
    assert_eq!(found(&files), (160, [160, 0, 0, 0]));
    let mut files = booted("orin-agx-64");
    for channel in 1..=3 {
        let shunt = format!("/sys/class/hwmon/hwmon0/shunt{channel}_resistor");
        files.shown.insert(shunt, Ok(b"4000\n".to_vec()));
    }
    assert_eq!(found(&files), (177, [177, 0, 0, 0]));
    // An implausible shunt is ignored, and the step is inferred from the currents.
    for shunt in [
        "0",
        "-2000",
        "99",
        "100001",
        "9223372036854775807",
        "2 mOhm",
    ] {
        let mut files = booted("orin-nano-8");
        let path = "/sys/class/hwmon/hwmon0/shunt1_resistor".to_owned();
        files.shown.insert(path, Ok(shunt.as_bytes().to_vec()));
        let current = "/sys/class/hwmon/hwmon0/curr1_input".to_owned();
        files.shown.insert(current, Ok(b"1000\n".to_vec()));
        assert_eq!(found(&files), (100, [100, 0, 0, 0]), "{shunt}");
    }
}

/// Sets the current in mA that each rail of an AGX Xavier shows. The first five rails have 12 V,
/// the last one 5 V. Each chip measures three.
fn show_currents(files: &mut Simulated, show: impl Fn(usize) -> i64) {
    for (at, chip) in ["1-0040/iio:device0", "1-0041/iio:device1"]
        .iter()
        .enumerate()
    {
        for channel in 0..3 {
            let device = format!("/sys/bus/i2c/drivers/ina3221x/{chip}");
            let shown = Ok(format!("{}\n", show(3 * at + channel)).into_bytes());
            let path = format!("{device}/in_current{channel}_input");
            files.shown.insert(path, shown);
        }
    }
}

/// The typical offset of the total and the steps of its chips, in mW.
fn errors(board: &Board) -> (u32, [u32; MOST_CHIPS]) {
    (board.sensor_offset().0, board.sensor_steps().map(|it| it.0))
}

/// Errors if all rails have the largest step, 20 mA, and if all have 8 mA.
const COARSEST: (u32, [u32; MOST_CHIPS]) = (546, [416, 354, 0, 0]);
const STEPS_OF_8_MA: (u32, [u32; MOST_CHIPS]) = (219, [167, 142, 0, 0]);

/// The driver of JetPack 4 does not show shunts, but readings are multiples of the step.
#[test]
fn without_a_shown_shunt_the_offset_is_inferred_from_currents() {
    let found = |show: &dyn Fn(usize) -> i64| {
        let mut files = booted("xavier-agx");
        show_currents(&mut files, show);
        errors(&discover(&files))
    };
    // All readings are multiples of 20 mA, or (1,001 mA) of no step.
    assert_eq!(found(&|_| 1_000), COARSEST);
    assert_eq!(found(&|_| 0), COARSEST);
    assert_eq!(found(&|_| 1_001), COARSEST);
    assert_eq!(
        found(&|rail| 100 * rail as i64 + 10),
        (273, [208, 177, 0, 0])
    );
    assert_eq!(found(&|_| 1_008), STEPS_OF_8_MA);
    assert_eq!(found(&|_| 1_004), (110, [84, 71, 0, 0]));
    // Shunts may differ, so each rail has its own step.
    assert_eq!(
        found(&|rail| [1_000, 1_008][rail / 3]),
        (440, [416, 142, 0, 0])
    );
    // Readings of the simulated board, whose shunts are 5 mΩ.
    let mut total = 0;
    for seed in 0..20 {
        let offset = discover(&common::seeded("xavier-agx", seed))
            .sensor_offset()
            .0;
        assert!((219..=547).contains(&offset), "seed {seed}: {offset}");
        total += offset;
    }
    assert!(total / 20 < 400, "{total} in 20 boards");
}

#[test]
fn samples_after_discovery_refine_the_inferred_steps() {
    let mut files = booted("xavier-agx");
    show_currents(&mut files, |_| 0);
    let mut board = discover(&files);
    let mut sampled = |show: &dyn Fn(usize) -> i64| {
        show_currents(&mut files, show);
        let sample = board.sample(&files);
        assert!(sample.is_ok(), "{sample:?}");
        errors(&board)
    };
    assert_eq!(sampled(&|_| 0), COARSEST);
    assert_eq!(sampled(&|_| 1_000), COARSEST);
    // The rails of the second chip have no load and keep the largest step.
    let first_chip = (391, [167, 354, 0, 0]);
    assert_eq!(sampled(&|rail| [1_008, 0][rail / 3]), first_chip);
    assert_eq!(sampled(&|_| 1_000), first_chip);
    assert_eq!(sampled(&|_| 0), first_chip);
    assert_eq!(sampled(&|_| 16), STEPS_OF_8_MA);
    // The step stays fine, although 20 mA divides these readings.
    for _ in 0..20 {
        assert_eq!(sampled(&|_| 1_000), STEPS_OF_8_MA);
        assert_eq!(sampled(&|_| 0), STEPS_OF_8_MA);
    }
    assert_eq!(sampled(&|_| -12), (110, [84, 71, 0, 0]));
    // No step divides all readings now, so the largest counts from here on.
    assert_eq!(sampled(&|_| 1_002), COARSEST);
    assert_eq!(sampled(&|_| 1_008), COARSEST);
}

#[test]
fn a_rail_without_load_keeps_the_coarsest_step() {
    let mut files = booted("xavier-agx");
    show_currents(&mut files, |_| 0);
    let mut board = discover(&files);
    for ma in (0..400).step_by(8) {
        show_currents(&mut files, |rail| if rail == 3 { 0 } else { ma });
        board.sample(&files).expect("a reading");
    }
    // Four rails of 8 mA and one of 20 mA at 12 V, and one of 8 mA at 5 V.
    assert_eq!(errors(&board), (310, [167, 262, 0, 0]));
}

#[test]
fn a_faulty_reading_does_not_change_the_step() {
    let mut files = booted("xavier-agx");
    show_currents(&mut files, |_| 1_008);
    let mut board = discover(&files);
    for faulty in [32_761, i64::MAX, -41, i64::MIN] {
        show_currents(&mut files, |_| faulty);
        board.sample(&files).expect_err("no power");
        assert_eq!(errors(&board), STEPS_OF_8_MA, "{faulty} mA");
    }
}

#[test]
fn readings_do_not_change_the_step_of_a_shown_shunt() {
    let mut files = booted("orin-agx-64");
    let mut board = discover(&files);
    let before = errors(&board);
    for ma in [0, 8, 1_004, 1_001] {
        for channel in 1..=3 {
            let current = format!("/sys/class/hwmon/hwmon0/curr{channel}_input");
            let shown = Ok(format!("{ma}\n").into_bytes());
            files.shown.insert(current, shown);
        }
        board.sample(&files).expect("a reading");
        assert_eq!(errors(&board), before, "{ma} mA");
    }
}

/// The offset of a simulated AGX Xavier in mW at discovery, and after ten seconds under load.
/// Asserts that it never rises.
fn offsets_of_a_xavier(unit: Unit, seed: u64) -> (u32, u32) {
    let tree = Tree::new(description("xavier-agx"), unit, seed, None);
    let mut files = Simulated::new(tree.expect("a default mode"));
    let mut board = discover(&files);
    let first = board.sensor_offset();
    let mut last = first;
    load(&mut files);
    for _ in 0..200 {
        files.wait(Duration::from_millis(50));
        board.sample(&files).expect("a reading");
        let offset = board.sensor_offset();
        assert!(offset <= last, "seed {seed}: {last}, then {offset}");
        last = offset;
    }
    (first.0, last.0)
}

/// The shunts are 5 mΩ, which only the currents reveal.
#[test]
fn the_steps_of_a_xavier_under_load_are_found_within_seconds() {
    // The GPU is under load. CV has no load, reads 0, and keeps 20 mA.
    assert_eq!(offsets_of_a_xavier(Unit::NOMINAL, 0), (381, 310));
    // A large enough offset of a unit moves the reading of CV from 0.
    let units = (0..20).map(|seed| offsets_of_a_xavier(Unit::drawn(seed), seed));
    let (first, last): (Vec<u32>, Vec<u32>) = units.unzip();
    let mean = |offsets: &[u32]| offsets.iter().sum::<u32>() / 20;
    assert!(
        mean(&first) > 320 && mean(&last) < 270,
        "{first:?}, {last:?}"
    );
}

#[test]
fn the_load_of_the_gpu_is_read_if_the_driver_shows_it() {
    for name in boards() {
        let mut files = booted(name);
        load(&mut files);
        let board = discover(&files);
        for (order, expected) in [("activity 0 0", 0), ("activity 0.5 0.25", 250)] {
            files.tree.control(order).expect("a command");
            files.wait(Duration::from_millis(20));
            assert_eq!(board.gpu_load(&files), Some(expected), "{name}: {order}");
        }
        let devfreq = files.tree.list("/sys/class/devfreq").expect("a class");
        let path = format!("/sys/class/devfreq/{}/device/load", devfreq[0]);
        let mut show = |shown: Result<&str, Errno>| {
            let shown = shown.map(|text| text.as_bytes().to_vec());
            files.shown.insert(path.clone(), shown);
            board.gpu_load(&files)
        };
        assert_eq!(show(Ok("1000\n")), Some(1_000), "{name}");
        assert_eq!(show(Ok("1001\n")), Some(1_000), "{name}");
        assert_eq!(show(Ok("9223372036854775807\n")), Some(1_000), "{name}");
        assert_eq!(show(Ok("-1\n")), Some(0), "{name}");
        for nonsense in ["", "\n", "busy\n", "99.9\n", "9223372036854775808\n"] {
            assert_eq!(show(Ok(nonsense)), None, "{name}: {nonsense:?}");
        }
        assert_eq!(show(Err(Errno::Eio)), None, "{name}");
        // A file that is absent at discovery is reported as missing, and the rest works.
        files.shown.insert(path, Err(Errno::Enoent));
        let mut board = discover(&files);
        assert_eq!(board.gpu_load(&files), None, "{name}");
        let missing = board.missing().iter().find(|it| it.what == "GPU load");
        assert!(missing.is_some(), "{name}: {:?}", board.missing());
        assert!(board.apply(&mut files, &lowest(name)).is_ok(), "{name}");
    }
}
