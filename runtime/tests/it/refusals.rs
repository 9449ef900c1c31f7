//! The reader refuses every invalid file with a specific error, and never panics.

use crate::common::{self, sealed};
use proptest::prelude::*;
use wattgate_runtime::format::{
    Body, HEADER_LEN, Kind, LOG_LIMIT, MEASURED_LEN, MOST_MEASURED, Provenance, VERSION, crc32,
};
use wattgate_runtime::grid::{Axes, Grid, GridError};
use wattgate_runtime::guard::{GuardBand, Knot, MOST_DEVIATIONS, TimeSpread};
use wattgate_runtime::model::Prediction;
use wattgate_runtime::quantities::Factor;
use wattgate_runtime::shape::{Shape, Widths};
use wattgate_runtime::{Confidence, FormatError, Front, ModeId, Model, Query, Region};

fn grid() -> Grid {
    Grid::new([&[1, 2], &[100, 200], &[300], &[500, 800]]).expect("a grid")
}

fn valid() -> Vec<u8> {
    common::random_model(&grid(), Shape::Deep8x8, 3, 3)
}

/// Reads a file and, if it is a model, uses all its parts.
fn exercise(bytes: &[u8]) {
    let Ok(model) = Model::parse(bytes) else {
        return;
    };
    let _ = (model.provenance(), model.tpc_pg_mask());
    for region in [model.profiled(), Region::all(model.grid())] {
        let front = Front::<16>::from_model(&model, &region, Confidence::P95);
        let _ = front.select(&Query::default());
    }
}

fn error(bytes: &[u8]) -> FormatError {
    let known = Model::parse(bytes).and_then(|model| model.provenance());
    known.expect_err("refused")
}

#[test]
fn every_changed_byte_and_every_lost_byte_is_refused() {
    let valid = valid();
    assert!(Model::parse(&valid).is_ok());
    for at in 0..valid.len() {
        for change in 1..=255 {
            let mut changed = valid.clone();
            changed[at] ^= change;
            assert!(Model::parse(&changed).is_err(), "byte {at} ^ {change}");
        }
        assert!(Model::parse(&valid[..at]).is_err(), "the first {at} bytes");
    }
}

#[test]
fn each_bad_header_has_its_own_error() {
    let with = |range: std::ops::Range<usize>, new: &[u8]| {
        let mut bytes = valid();
        bytes[range].copy_from_slice(new);
        sealed(bytes)
    };
    assert_eq!(error(b""), FormatError::TooShort);
    assert_eq!(error(&valid()[..HEADER_LEN - 1]), FormatError::TooShort);
    assert_eq!(error(&[b'x'; 100]), FormatError::WrongMagic);
    for found in [0, VERSION as u8 + 1] {
        let version = error(&with(4..6, &[found, 0]));
        let found = u16::from(found);
        assert_eq!(version, FormatError::UnsupportedVersion { found });
    }
    let bad: [(_, &[u8]); 4] = [(6..7, &[0]), (6..7, &[4]), (7..8, &[1]), (14..16, &[1, 0])];
    for (range, new) in bad {
        assert_eq!(error(&with(range, new)), FormatError::BadHeader, "{new:?}");
    }
    assert_eq!(error(&with(16..20, &[0; 4])), FormatError::GridMismatch);
    assert_eq!(error(&valid()[..valid().len() - 1]), FormatError::Truncated);
    let mut longer = valid();
    longer.push(0);
    assert_eq!(error(&longer), FormatError::TrailingBytes);
    let mut flipped = valid();
    flipped[HEADER_LEN + 40] ^= 1;
    assert_eq!(error(&flipped), FormatError::Checksum);
}

#[test]
fn the_error_of_an_unsupported_shape_lists_the_supported_ones() {
    let mut bytes = valid();
    bytes[8..14].copy_from_slice(&[12, 0, 6, 0, 0, 0]);
    let refused = error(&sealed(bytes));
    let widths = Widths([12, 6, 0]);
    assert_eq!(refused, FormatError::UnsupportedShape { widths });
    let large = if cfg!(feature = "large-shapes") {
        ",256-128-64"
    } else {
        ""
    };
    let message = "layer shape 12-6 is not supported; supported: 16,32,8-8,16-16";
    assert_eq!(refused.to_string(), format!("{message}{large}"));
}

/// The shape needs more stack than firmware has.
#[cfg(not(feature = "large-shapes"))]
#[test]
fn firmware_refuses_the_large_shape() {
    let mut bytes = valid();
    bytes[8..14].copy_from_slice(&[0, 1, 128, 0, 64, 0]);
    let widths = Widths([256, 128, 64]);
    assert_eq!(
        error(&sealed(bytes)),
        FormatError::UnsupportedShape { widths }
    );
}

/// The fields of a body, to be changed one by one.
struct Parts {
    axes: Axes,
    profiled: [u8; 8],
    layers: Vec<u8>,
    levels: Vec<u8>,
    time_guard: Vec<Knot>,
    power_guard: Vec<Knot>,
    least_spread: u16,
    time_spread: TimeSpread,
    measured: Vec<u8>,
}

impl Parts {
    fn new() -> Self {
        let file = valid();
        let body: Body<'_> = postcard::from_bytes(&file[HEADER_LEN..]).expect("a body");
        Self {
            axes: body.axes,
            profiled: [0, 0, 0, 0, 1, 1, 0, 1],
            layers: body.layers.to_vec(),
            levels: body.levels.to_vec(),
            time_guard: body.time_guard.to_vec(),
            power_guard: body.power_guard.to_vec(),
            least_spread: body.least_spread,
            time_spread: body.time_spread,
            measured: Vec::new(),
        }
    }

    /// The error of a valid body with a change.
    fn error(change: impl FnOnce(&mut Self)) -> FormatError {
        let mut parts = Self::new();
        change(&mut parts);
        let body = Body {
            profiled: postcard::from_bytes(&parts.profiled).expect("eight indices"),
            layers: &parts.layers,
            levels: &parts.levels,
            time_guard: parts.time_guard.iter().copied().collect(),
            power_guard: parts.power_guard.iter().copied().collect(),
            provenance: Provenance {
                kind: Kind::Measured,
                device: "",
                workload: "",
                minibatch: None,
                seed: 0,
                modes_used: 0,
                modes_held_out: 0,
                time_error: None,
                power_error: None,
            },
            least_spread: parts.least_spread,
            time_spread: parts.time_spread,
            measured: &parts.measured,
            tpc_pg_mask: None,
            units: &[],
            reference_power: 1,
            others_time: parts.time_guard.iter().map(|_| 0).collect(),
            others_power: parts.power_guard.iter().map(|_| 0).collect(),
            idle: (0, 0),
            axes: parts.axes,
        };
        let mut buffer = [0; 2048];
        let body = postcard::to_slice(&body, &mut buffer).expect("it fits");
        let mut bytes = valid()[..HEADER_LEN].to_vec();
        bytes.extend_from_slice(body);
        error(&sealed(bytes))
    }
}

#[test]
fn axes_that_form_no_grid_are_refused() {
    let error = |lengths, values: &[u32]| {
        let values = values.iter().copied().collect();
        Parts::error(|parts| parts.axes = Axes { lengths, values })
    };
    let many: Vec<u32> = [1..21, 1..21, 1..21, 1..21].into_iter().flatten().collect();
    let bad: [(_, &[u32], _); 6] = [
        ([1, 1, 1, 0], &[1, 2, 3], GridError::EmptyAxis),
        ([2, 1, 1, 1], &[2, 1, 3, 4, 5], GridError::NotAscending),
        ([2, 1, 1, 1], &[1, 1, 3, 4, 5], GridError::NotAscending),
        ([1, 1, 1, 1], &[0, 1, 3, 4], GridError::NotAscending),
        ([1, 1, 1, 2], &[1, 1, 3, 4], GridError::LengthsDisagree),
        ([20; 4], &many, GridError::TooManyModes),
    ];
    for (lengths, values, expected) in bad {
        let found = error(lengths, values);
        assert_eq!(found, FormatError::BadGrid(expected), "{lengths:?}");
    }
    let other = error([1, 1, 1, 1], &[1, 1, 3, 4]);
    assert_eq!(other, FormatError::GridMismatch);
}

#[test]
fn each_bad_field_of_a_body_has_its_own_error() {
    let lengths: [fn(&mut Vec<u8>); 3] =
        [|bytes| bytes.push(0), |bytes| _ = bytes.pop(), Vec::clear];
    for (case, change) in lengths.into_iter().enumerate() {
        let error = Parts::error(|parts| change(&mut parts.layers));
        assert_eq!(error, FormatError::LayersLength, "case {case}");
    }
    // Bytes of the rows: 8 × (12 + 2 + 2), 8 × (8 + 4 + 1), 3 × (8 + 4 + 4).
    for (at, byte) in [
        (0, 0x80),
        (128 + 12, 32),
        (128 + 11, 0x7F),
        (232 + 11, 0x80),
    ] {
        let error = Parts::error(|parts| parts.layers[at] = byte);
        assert_eq!(error, FormatError::BadLayer, "byte {at}");
    }
    for scale in [
        f32::NAN,
        f32::INFINITY,
        0.0,
        -1e-6,
        1e-10,
        1.5,
        f32::MIN_POSITIVE / 2.0,
    ] {
        let error = Parts::error(|parts| {
            parts.layers[232 + 12..232 + 16].copy_from_slice(&scale.to_le_bytes());
        });
        assert_eq!(error, FormatError::BadScale, "{scale}");
    }

    let profiled = |profiled| Parts::error(|parts| parts.profiled = profiled);
    assert_eq!(profiled([0, 0, 0, 0, 2, 1, 0, 1]), FormatError::BadRegion);
    assert_eq!(profiled([1, 0, 0, 0, 0, 1, 0, 1]), FormatError::BadRegion);

    let knot = |per_ten_thousand, q16| Knot {
        per_ten_thousand,
        q16,
    };
    let guards: [&[Knot]; 4] = [
        &[],
        &[knot(4_999, 65_536)],
        &[knot(10_000, 65_536)],
        &[knot(9_000, 70_000), knot(9_500, 69_999)],
    ];
    for knots in guards {
        let error = Parts::error(|parts| parts.time_guard = knots.to_vec());
        assert_eq!(error, FormatError::BadGuardBand, "{knots:?}");
        let error = Parts::error(|parts| parts.power_guard = knots.to_vec());
        assert_eq!(error, FormatError::BadGuardBand, "{knots:?}");
    }
    let beyond = knot(9_000, (MOST_DEVIATIONS << 16) + 1);
    let error = Parts::error(|parts| parts.power_guard = vec![beyond]);
    assert_eq!(error, FormatError::BadGuardBand, "too many deviations");
    let error = Parts::error(|parts| parts.time_guard = vec![beyond]);
    assert_eq!(error, FormatError::BadGuardBand, "too many deviations");
    let error = Parts::error(|parts| parts.least_spread = 32_768);
    assert_eq!(error, FormatError::BadGuardBand, "a spread beyond 15 bits");
}

/// Beyond these scales, a power with its margin could overflow.
#[test]
fn scales_of_a_spread_are_bounded() {
    let with = |output: usize, scale: f32| {
        Parts::error(|parts| {
            let at = 232 + 16 * output + 12;
            parts.layers[at..at + 4].copy_from_slice(&scale.to_le_bytes());
        })
    };
    assert_eq!(with(1, 2.9e-8), FormatError::BadScale, "of the power");
    assert_eq!(with(2, 6.2e-5), FormatError::BadScale, "of the spread");
}

/// Beyond these, a time with its margin could overflow.
#[test]
fn the_spread_of_a_time_is_bounded() {
    let with = |base, slope| Parts::error(|parts| parts.time_spread = TimeSpread { base, slope });
    let most = TimeSpread::MOST_SLOPE;
    assert_eq!(with(0, most + 1), FormatError::BadGuardBand);
    assert_eq!(with(32_768, 0), FormatError::BadGuardBand);
    let error = Parts::error(|parts| {
        parts.layers[232 + 12..232 + 16].copy_from_slice(&4.7e-7_f32.to_le_bytes());
    });
    assert_eq!(error, FormatError::BadScale);
}

#[test]
fn measured_modes_that_cannot_be_are_refused() {
    let mode = |id: u16, log_time: i32, log_power: i32, spread: u16| {
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.extend(log_time.to_le_bytes());
        bytes.extend(log_power.to_le_bytes());
        bytes.extend(spread.to_le_bytes());
        bytes
    };
    let too_large = LOG_LIMIT + 1;
    let refused = [
        ("a part of a mode", vec![0; MEASURED_LEN - 1]),
        ("a mode beyond the grid", mode(8, 0, 0, 0)),
        (
            "a mode twice",
            [mode(1, 0, 0, 0), mode(1, 0, 0, 0)].concat(),
        ),
        (
            "descending modes",
            [mode(2, 0, 0, 0), mode(1, 0, 0, 0)].concat(),
        ),
        ("a time beyond all", mode(1, too_large, 0, 0)),
        ("a time below all", mode(1, -too_large, 0, 0)),
        ("a power beyond all", mode(1, 0, too_large, 0)),
        ("a spread of 16 bits", mode(1, 0, 0, 32_768)),
    ];
    for (what, measured) in refused {
        let error = Parts::error(|parts| parts.measured = measured);
        assert_eq!(error, FormatError::BadMeasured, "{what}");
    }
    let many: Vec<u32> = (1..=40).collect();
    let grid = Grid::new([&[1], &[1], &[1], &many]).expect("a grid");
    let parsed_count = |count: u16| {
        let at = |id| {
            (
                ModeId(id),
                Prediction {
                    log_time: 0,
                    log_power: 0,
                    spread: 0,
                },
            )
        };
        let measured: Vec<_> = (0..count).map(at).collect();
        let layers = common::random_layers(&grid, Shape::Wide16, 3, &mut common::Random(1));
        let bytes = common::encode(&grid, &layers, &measured, "many");
        Model::parse(&bytes).map(|model| model.measured().count())
    };
    assert_eq!(parsed_count(MOST_MEASURED as u16), Ok(MOST_MEASURED));
    assert_eq!(
        parsed_count(MOST_MEASURED as u16 + 1),
        Err(FormatError::BadMeasured)
    );
}

#[test]
fn a_kind_that_is_not_known_is_refused_with_the_provenance_alone() {
    let golden = include_bytes!("../../../weights/golden/deep-8x8-spread.wgt");
    // As the dump in FORMAT.md shows.
    const AT: usize = 0x1b8;
    let with = |kind: u8| {
        let mut bytes = golden.to_vec();
        bytes[AT] = kind;
        sealed(bytes)
    };
    for (number, kind) in [Kind::Measured, Kind::Simulated, Kind::Recorded]
        .into_iter()
        .enumerate()
    {
        let bytes = with(number as u8);
        let model = Model::parse(&bytes).expect("a model");
        assert_eq!(model.provenance().map(|it| it.kind), Ok(kind));
    }
    let bytes = with(3);
    let model = Model::parse(&bytes).expect("a model");
    assert_eq!(model.provenance(), Err(FormatError::BadBody));
}

/// The files were written before the later versions existed. What the runtime makes of them is in the report.
#[test]
fn a_file_of_version_1_predicts_as_it_did() {
    let old = include_bytes!("../../../weights/golden/version-1.wgt");
    let new = include_bytes!("../../../weights/golden/version-2.wgt");
    let [old, new] = [&old[..], new].map(|bytes| Model::parse(bytes).expect("a model"));
    assert_eq!(old.provenance(), new.provenance());
    assert_eq!(
        (old.tpc_pg_mask(), new.tpc_pg_mask()),
        (Ok(None), Ok(Some(0xC0)))
    );
    assert!(!old.has_spread());
    let [front, expected] = [&old, &new]
        .map(|model| Front::<64>::from_model(model, &model.profiled(), Confidence::P95));
    assert_eq!(front.points(), expected.points());
    assert!(front.points().len() > 2);
    // Three outputs came with version 2.
    let mut bytes = include_bytes!("../../../weights/golden/version-1.wgt").to_vec();
    bytes[6] = 3;
    assert_eq!(error(&sealed(bytes)), FormatError::BadHeader);
}

#[test]
fn a_body_that_does_not_decode_is_refused() {
    let changes: [fn(&mut Vec<u8>); 3] = [
        |bytes| bytes.push(0),
        |bytes| _ = bytes.pop(),
        |bytes| bytes.truncate(HEADER_LEN),
    ];
    for (case, change) in changes.into_iter().enumerate() {
        let mut bytes = valid();
        change(&mut bytes);
        assert_eq!(error(&sealed(bytes)), FormatError::BadBody, "case {case}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        exercise(&bytes);
    }

    /// With a valid checksum, so that the body is decoded.
    #[test]
    fn no_body_makes_the_reader_panic(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = valid();
        for (index, value) in changes {
            let at = 4 + index.index(bytes.len() - 4);
            bytes[at] = value;
        }
        exercise(&sealed(bytes));
    }

    #[test]
    fn a_guard_band_rises_with_the_confidence(
        rises in proptest::collection::vec((1..800_u16, 0..9_000_u32), 1..8),
    ) {
        let (mut confidence, mut ratio) = (5_000, 65_536);
        let knots: Vec<Knot> = rises.iter().map(|(c, r)| {
            (confidence, ratio) = (confidence + c, ratio + r);
            Knot { per_ten_thousand: confidence.min(9_999), q16: ratio }
        }).collect();
        prop_assume!(knots.iter().filter(|knot| knot.per_ten_thousand == 9_999).count() < 2);
        let band = GuardBand::new(knots).expect("ascending");
        let mut last = Factor::ONE.q16();
        for per_ten_thousand in 5_000..=confidence.min(9_999) {
            let confidence = Confidence::new(per_ten_thousand).expect("in range");
            let margin = band.margin(confidence).expect("supported");
            prop_assert!(margin >= last);
            last = margin;
        }
    }
}

#[test]
fn the_checksum_is_crc_32() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    assert_eq!(crc32(b""), 0);
}
