//! Units of a board: what a file says of them, and fronts for them.

use wattgate_runtime::fleet::{MOST_UNITS, UNIT_LEN, Unit, UnitId};
use wattgate_runtime::format::HEADER_LEN;
use wattgate_runtime::{Confidence, FormatError, Front, Milliwatts, Model};

use crate::common::{IDLE, UNITS, golden_models, sealed};

/// Length of the idle power at the end of the file.
const IDLE_LEN: usize = 5;

fn bytes() -> Vec<u8> {
    let models = golden_models();
    let found = models
        .into_iter()
        .find(|(name, _)| *name == "deep-8x8-spread");
    found.expect("a golden model").1
}

fn front(model: &Model<'_>) -> Front<64> {
    Front::from_model(model, &model.profiled(), Confidence::P95)
}

#[test]
fn an_id_is_the_checksum_of_a_serial_number() {
    let id = UnitId::of_serial_number("1421521033456").expect("an id");
    assert_eq!(UnitId::of_serial_number("1421521033456\0"), Some(id));
    assert_eq!(UnitId::of_serial_number(" 1421521033456\n"), Some(id));
    assert_eq!(
        UnitId::of_serial_number("123456789"),
        Some(UnitId(0xCBF4_3926))
    );
    assert_ne!(UnitId::of_serial_number("1421521033457"), Some(id));
    for none in [
        "",
        "ffffffff",
        "1111111111111",
        "\0",
        "  \n\0",
        "0",
        "0000000000000\0",
    ] {
        assert_eq!(UnitId::of_serial_number(none), None);
    }
    assert_eq!(UnitId::parse("cbf43926"), Some(UnitId(0xCBF4_3926)));
    assert_eq!(UnitId(0x0BAD_CAFE).to_string(), "0badcafe");
    for none in [
        "",
        "cbf4392",
        "cbf439260",
        "+bf43926",
        "cbf4392g",
        "0xbf4392",
    ] {
        assert_eq!(UnitId::parse(none), None, "{none}");
    }
}

#[test]
fn a_unit_of_the_file_keeps_the_narrow_band_and_others_get_the_wide_one() {
    let bytes = bytes();
    let model = Model::parse(&bytes).expect("a model");
    let fleet = model.fleet().expect("a fleet");
    let ids: Vec<UnitId> = UNITS.iter().map(|(id, _)| *id).collect();
    assert_eq!(fleet.units().collect::<Vec<_>>(), ids);
    let of_file = front(&model);
    for (id, [time, power, tilt]) in UNITS {
        let unit = fleet.unit(Some(id), Confidence::P95).expect("supported");
        assert!(unit.is_profiled && unit.margins == [0.0; 2]);
        let mut front = of_file.clone();
        front.for_unit(&unit);
        for (point, before) in front.points().iter().zip(of_file.points()) {
            let expected = |milliwatts: Milliwatts| {
                let ratio = f64::from(milliwatts.0) / 5_000.0;
                f64::from(milliwatts.0) * (power + tilt * ratio.ln()).exp()
            };
            let near = |found: u32, expected: f64| {
                // Levels have a resolution of 1/16,384, tilts of 1/256.
                let ratio = f64::from(found) / expected;
                assert!((0.995..1.005).contains(&ratio), "{found} {expected}");
            };
            near(point.power.0, expected(before.power));
            near(point.guarded.0, expected(before.guarded));
            near(
                point.guarded_time.0,
                f64::from(before.guarded_time.0) * time.exp(),
            );
        }
    }
    for other in [None, Some(UnitId(7))] {
        let unit = fleet.unit(other, Confidence::P95).expect("supported");
        assert!(!unit.is_profiled);
        let mut front = of_file.clone();
        front.for_unit(&unit);
        let [times, powers] = fleet.others();
        for (point, before) in front.points().iter().zip(of_file.points()) {
            assert_eq!(point.power, before.power);
            let wide = |band: &wattgate_runtime::guard::GuardBand, value: u32| {
                f64::from(value) * f64::from(band.margin(Confidence::P95).expect("a ratio"))
                    / 65_536.0
            };
            let [power, time] = [
                wide(powers, before.guarded.0) / f64::from(point.guarded.0),
                wide(times, before.guarded_time.0) / f64::from(point.guarded_time.0),
            ];
            assert!((power - 1.0).abs() < 1e-3 && (time - 1.0).abs() < 1e-3);
        }
    }
    let high = Confidence::new(9_999).expect("a confidence");
    assert!(fleet.unit(None, high).is_err());
    assert!(fleet.unit(Some(ids[0]), high).is_ok());
}

/// Whatever a unit is, a front stays one.
#[test]
fn a_front_for_a_unit_ascends() {
    let bytes = bytes();
    let model = Model::parse(&bytes).expect("a model");
    let fleet = model.fleet().expect("a fleet");
    let unit = fleet.unit(None, Confidence::P95).expect("supported");
    let strange = [
        Unit {
            tilt: -0.99,
            ..unit
        },
        Unit { tilt: 3.0, ..unit },
        Unit {
            power: -20.0,
            time: -20.0,
            ..unit
        },
        Unit {
            power: 20.0,
            time: 20.0,
            ..unit
        },
        Unit {
            power: f32::NAN,
            time: f32::NAN,
            ..unit
        },
        Unit {
            tilt: f32::INFINITY,
            ..unit
        },
        Unit {
            reference: Milliwatts(0),
            tilt: 0.1,
            ..unit
        },
        Unit {
            margins: [f32::NAN, f32::INFINITY],
            ..unit
        },
    ];
    for unit in strange {
        let mut front = front(&model);
        front.for_unit(&unit);
        let ascends = front
            .points()
            .is_sorted_by(|a, b| a.guarded < b.guarded && a.guarded_time > b.guarded_time);
        assert!(ascends && !front.points().is_empty(), "{unit:?}");
        assert_eq!(front.times().len(), front.points().len());
    }
}

#[test]
fn units_that_do_not_ascend_or_are_too_many_are_refused() {
    let bytes = bytes();
    let units: Vec<u8> = UNITS
        .iter()
        .flat_map(|(id, _)| id.0.to_le_bytes())
        .collect();
    let at = bytes
        .windows(4)
        .position(|bytes| bytes == &units[..4])
        .expect("the first unit");
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = bytes.clone();
        change(&mut changed);
        let changed = sealed(changed);
        let model = Model::parse(&changed).expect("a model");
        let error = model.fleet().expect_err("refused");
        assert_eq!(model.provenance().expect_err("refused"), error);
        error
    };
    assert_eq!(usize::from(bytes[at - 1]), UNITS.len() * UNIT_LEN);
    // The second unit is the first one.
    let twice = |bytes: &mut Vec<u8>| bytes.copy_within(at..at + 4, at + UNIT_LEN);
    assert_eq!(refused(&twice), FormatError::BadUnits);
    let many = |bytes: &mut Vec<u8>| {
        let more = (0..=MOST_UNITS as u32 - 2).flat_map(|id| {
            let mut unit = [0; UNIT_LEN];
            unit[..4].copy_from_slice(&(0xFFFF_FF00 + id).to_le_bytes());
            unit
        });
        let end = at + UNITS.len() * UNIT_LEN;
        bytes.splice(end..end, more.collect::<Vec<u8>>());
        bytes[at - 1] = ((MOST_UNITS + 1) * UNIT_LEN) as u8;
    };
    assert_eq!(refused(&many), FormatError::BadUnits);
    let odd = |bytes: &mut Vec<u8>| {
        bytes.remove(at);
        bytes[at - 1] -= 1;
    };
    assert_eq!(refused(&odd), FormatError::BadUnits);
    // The last number belongs to the highest knot of the power: below the one before.
    let falls = |bytes: &mut Vec<u8>| {
        let end = bytes.len() - IDLE_LEN;
        bytes.splice(end - 2..end, [0]);
    };
    assert_eq!(refused(&falls), FormatError::BadUnits);
    assert!(bytes.len() > HEADER_LEN);
}

#[test]
fn a_file_of_an_older_version_counts_every_unit_as_another_one() {
    let old = include_bytes!("../../../weights/golden/version-3-spread.wgt");
    let new = bytes();
    let [old, new] = [&old[..], &new].map(|bytes| Model::parse(bytes).expect("a model"));
    assert_eq!(front(&old).points(), front(&new).points());
    let fleet = old.fleet().expect("a fleet");
    assert_eq!(fleet.units().count(), 0);
    let unit = fleet
        .unit(Some(UNITS[0].0), Confidence::P95)
        .expect("supported");
    assert!(!unit.is_profiled && unit.margins[1] > 0.19 && unit.margins[0] > 0.08);
}

#[test]
fn a_file_tells_its_idle_power_and_an_older_one_none() {
    let new = bytes();
    let model = Model::parse(&new).expect("a model");
    let idle = model.idle().expect("it decodes").expect("a power");
    assert_eq!(idle, IDLE);
    let powers = [0, 1_000, 10_000].map(|load| idle.power(Milliwatts(load)).0);
    // At most the load; then 1,500 mW and 20,000 / 65,536 of it.
    assert_eq!(powers, [0, 1_000, 1_500 + 3_051]);
    assert_eq!(
        idle.at(Milliwatts(10_000)).power(Milliwatts(50_000)),
        Milliwatts(4_551)
    );
    let old = include_bytes!("../../../weights/golden/version-4-spread.wgt");
    let old = Model::parse(old).expect("a model");
    assert_eq!(old.idle(), Ok(None));
    assert_eq!(front(&old).points(), front(&model).points());
    assert_eq!(old.fleet().expect("a fleet").units().count(), UNITS.len());
    // A share beyond 16 bits, and one that is missing.
    let short = sealed(new[..new.len() - 3].to_vec());
    assert_eq!(
        Model::parse(&short).expect("a network").idle(),
        Err(FormatError::BadBody)
    );
    let mut large = new[..new.len() - 3].to_vec();
    large.extend([0x80, 0x80, 0x04]);
    let large = sealed(large);
    assert_eq!(
        Model::parse(&large).expect("a network").idle(),
        Err(FormatError::BadBody)
    );
}
