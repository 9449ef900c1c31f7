//! `plan --ask-tell`: the protocol, and the safety of a plan under a power limit on simulated
//! boards.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use wattgate_cli::planning::Answer;
use wattgate_runtime::Model;
use wattgate_runtime::format::{Kind, Provenance};

use crate::common::{self, folder, program, run};

/// A running planner.
struct Planner {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Planner {
    fn start() -> Self {
        let mut program = program();
        program.args(["plan", "--ask-tell"]);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().expect("the program starts");
        Self {
            input: child.stdin.take().expect("piped"),
            output: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    fn with(start: &Value) -> Self {
        let mut planner = Self::start();
        let ready = planner.send(start);
        assert!(ready["ready"]["modes"].as_u64().is_some(), "{ready}");
        planner
    }

    fn send_bytes(&mut self, line: &[u8]) -> Value {
        self.input.write_all(line).expect("the planner reads");
        self.input.write_all(b"\n").expect("the planner reads");
        let mut answer = String::new();
        self.output
            .read_line(&mut answer)
            .expect("the planner answers");
        serde_json::from_str(&answer).expect("one JSON object a line")
    }

    fn send(&mut self, request: &Value) -> Value {
        self.send_bytes(request.to_string().as_bytes())
    }

    fn refused(&mut self, line: &str) -> (String, String) {
        let error = self.send_bytes(line.as_bytes())["error"].take();
        let text = |key: &str| {
            error[key]
                .as_str()
                .unwrap_or_else(|| panic!("{line}"))
                .to_owned()
        };
        (text("code"), text("message"))
    }

    /// The mode that the planner asks for.
    fn asked(&mut self) -> Value {
        let answer = self.send(&json!({"ask": {}}));
        assert!(answer["measure"].is_object(), "{answer}");
        answer["measure"]["mode"].clone()
    }

    /// Tells the time and power of the made-up board.
    fn tell(&mut self, mode: &Value) -> Value {
        let [time_us, power_mw] = made_up(mode);
        self.send(&json!({"tell": {"mode": mode, "time_us": time_us, "power_mw": power_mw}}))
    }

    fn end(self) {
        let Self {
            mut child,
            input,
            mut output,
        } = self;
        drop(input);
        let mut rest = String::new();
        output.read_line(&mut rest).expect("closed");
        assert_eq!(rest, "");
        assert!(child.wait().expect("it ends").success());
    }
}

const KNOBS: [&str; 4] = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];

fn knobs(mode: &Value) -> [u32; 4] {
    KNOBS.map(|knob| mode[knob].as_u64().expect("a number") as u32)
}

fn mode([cores, cpu_khz, gpu_khz, emc_khz]: [u32; 4]) -> Value {
    json!({"cores": cores, "cpu_khz": cpu_khz, "gpu_khz": gpu_khz, "emc_khz": emc_khz})
}

/// Time in µs and power in mW of a mode of the made-up board.
fn made_up(mode: &Value) -> [f64; 2] {
    let [cores, cpu, gpu, emc] = knobs(mode);
    let row = common::row(cores, cpu, gpu, emc);
    let mut fields = row
        .rsplit(',')
        .map(|field| field.parse::<f64>().expect("a number"));
    let power_mw = fields.next().expect("a power");
    [1e3 * fields.next().expect("a time"), power_mw]
}

fn axes() -> Value {
    json!({
        "cores": [1, 2, 3, 4],
        "cpu_khz": [400_000, 800_000, 1_200_000, 1_600_000],
        "gpu_khz": [300_000, 600_000, 900_000],
        "emc_khz": [800_000, 1_600_000],
    })
}

const LOWEST: [u32; 4] = [1, 400_000, 300_000, 800_000];

#[test]
fn without_a_limit_the_modes_are_those_of_plan() {
    let mut planner = Planner::with(&json!({"version": 2, "axes": axes(), "modes": 10, "seed": 4}));
    let mut asked = Vec::new();
    for measured in 1..=10 {
        let mode = planner.asked();
        assert_eq!(planner.asked(), mode, "an ask changes nothing");
        assert_eq!(planner.tell(&mode), json!({"told": {"measured": measured}}));
        asked.push(mode);
    }
    let enough = planner.send(&json!({"ask": {"current": mode(LOWEST)}}));
    assert_eq!(enough["enough"]["measured"], 10);
    for target in ["time", "power"] {
        let error = enough["enough"]["expected_error_pct"][target].as_f64();
        assert!(error.is_some_and(|error| error < 30.0), "{enough}");
    }
    planner.end();

    let values = "--axes cores=1,2,3,4 cpu_khz=400000,800000,1200000,1600000 gpu_khz=300000,600000,900000 emc_khz=800000,1600000";
    let arguments = format!("plan {values} --modes 8 --order value --seed 4 --json");
    let planned = run(folder().path(), &arguments).json();
    let planned = planned["modes"].as_array().expect("modes");
    let planned: Vec<[u32; 4]> = planned.iter().map(knobs).collect();
    let asked: Vec<[u32; 4]> = asked.iter().map(knobs).collect();
    assert_eq!(asked[..8], planned);
    assert!((8..10).all(|at| !asked[..at].contains(&asked[at])));
}

#[test]
fn the_nearest_of_the_first_modes_comes_first() {
    let mut planner = Planner::with(&json!({"version": 2, "axes": axes(), "modes": 8}));
    let lowest = planner.send(&json!({"ask": {"current": mode(LOWEST)}}));
    let mut planner = Planner::with(&json!({"version": 2, "axes": axes(), "modes": 8}));
    let highest = mode([4, 1_600_000, 900_000, 1_600_000]);
    let highest = planner.send(&json!({"ask": {"current": highest}}));
    let [low, high] = [lowest, highest].map(|answer| knobs(&answer["measure"]["mode"]));
    assert!(low.iter().zip(high).all(|(low, high)| *low <= high) && low != high);
}

/// A board that refuses each of the first modes still gets others.
#[test]
fn a_plan_of_which_all_first_modes_are_excluded_goes_on() {
    let mut planner = Planner::with(&json!({"version": 2, "axes": axes(), "modes": 10}));
    let mut asked = HashSet::new();
    for _ in 0..12 {
        let answer = planner.send(&json!({"ask": {}}));
        let mode = &answer["measure"]["mode"];
        assert!(mode.is_object(), "{answer}");
        assert!(asked.insert(mode.to_string()), "{mode} again");
        let answer = planner.send(&json!({"exclude": {"mode": mode}}));
        assert!(answer["excluded"].is_object(), "{answer}");
    }
    planner.end();
}

#[test]
fn excluded_modes_are_not_asked_for() {
    let axes = json!({
        "cores": [1, 2],
        "cpu_khz": [400_000, 800_000, 1_200_000],
        "gpu_khz": [300_000, 600_000],
        "emc_khz": [800_000, 1_600_000],
    });
    let mut planner = Planner::with(&json!({"version": 2, "axes": axes, "modes": 24}));
    let refused = planner.asked();
    let one = json!({"exclude": {"mode": refused}});
    assert_eq!(planner.send(&one), json!({"excluded": {"modes": 1}}));
    assert_eq!(planner.send(&one), json!({"excluded": {"modes": 1}}));
    assert_ne!(planner.asked(), refused);
    // 1 × 2 × 1 × 2 modes have no lower knob.
    let over = [2, 800_000, 600_000, 800_000];
    let over = json!({"exclude": {"mode": mode(over), "power_mw": 5_000.0}});
    let excluded = planner.send(&over)["excluded"]["modes"].as_u64();
    assert!(matches!(excluded, Some(4 | 5)), "{excluded:?}");
    let mut measured = 0;
    let enough = loop {
        let answer = planner.send(&json!({"ask": {}}));
        if answer["enough"].is_object() {
            break answer;
        }
        let mode = &answer["measure"]["mode"];
        let [cores, cpu, gpu, _] = knobs(mode);
        assert!(cores < 2 || cpu < 800_000 || gpu < 600_000, "{mode}");
        assert_ne!(*mode, refused);
        planner.tell(mode);
        measured += 1;
    };
    assert_eq!(Some(24 - measured), excluded);
    assert_eq!(enough["enough"]["measured"], measured);
}

#[test]
fn a_plan_under_a_limit_starts_at_the_lowest_mode_and_stays_within() {
    let limit_mw = 4_000.0;
    let start = json!({"version": 2, "axes": axes(), "modes": 12, "limit_mw": limit_mw,
        "seed": 2, "workload": "job", "device": "board"});
    let mut planner = Planner::with(&start);
    let first = planner.send(&json!({"ask": {}}));
    let unknown =
        json!({"mode": mode(LOWEST), "time_us": null, "power_mw": null, "power_at_most_mw": null});
    assert_eq!(first["measure"], unknown);
    planner.tell(&mode(LOWEST));
    for measured in 1..12 {
        let answer = planner.send(&json!({"ask": {}}))["measure"].take();
        let at_most = answer["power_at_most_mw"].as_f64().expect("a bound");
        assert!(
            at_most <= limit_mw && answer["power_mw"].as_f64() <= Some(at_most),
            "{answer}"
        );
        let [_, power_mw] = made_up(&answer["mode"]);
        assert!(power_mw <= limit_mw, "{measured}: {answer}, {power_mw} mW");
        planner.tell(&answer["mode"]);
    }
    assert_eq!(planner.send(&json!({"ask": {}}))["enough"]["measured"], 12);
}

#[test]
fn a_limit_below_the_lowest_mode_ends_the_plan() {
    let start = json!({"version": 2, "axes": axes(), "modes": 12, "limit_mw": 1_000});
    let mut planner = Planner::with(&start);
    let lowest = planner.asked();
    planner.tell(&lowest);
    let enough = json!({"measured": 1, "expected_error_pct": {"time": null, "power": null}});
    assert_eq!(planner.send(&json!({"ask": {}})), json!({"enough": enough}));
    let mut planner = Planner::with(&start);
    planner.send(&json!({"exclude": {"mode": mode(LOWEST), "power_mw": 1_200}}));
    assert_eq!(planner.send(&json!({"ask": {}}))["enough"]["measured"], 0);
}

#[test]
fn a_defective_first_line_is_refused_by_name() {
    let mut planner = Planner::start();
    let with = |key: &str, value: Value| {
        let mut start = json!({"version": 2, "axes": axes(), "modes": 8});
        start[key] = value;
        start.to_string()
    };
    let with_axis = |values: Value| {
        let mut axes = axes();
        axes["gpu_khz"] = values;
        with("axes", axes)
    };
    let many: Vec<u32> = (1..=80).collect();
    for (line, code, message) in [
        (
            with("version", json!(1)),
            "version",
            "version 1 is not known; this is 2",
        ),
        (
            with("versoin", json!(2)),
            "fields",
            "unknown field `versoin`",
        ),
        (
            r#"{"version":2,"modes":8}"#.to_owned(),
            "fields",
            "missing field `axes`",
        ),
        (
            with("modes", json!(0)),
            "modes",
            "cannot plan 0 modes: the board has 96; ask for 1 to 96",
        ),
        (
            with("modes", json!(97)),
            "modes",
            "cannot plan 97 modes: the board has 96; ask for 1 to 96",
        ),
        (with("modes", json!(-1)), "fields", "integer `-1`"),
        (with("modes", json!(8.5)), "fields", "8.5"),
        (with("seed", json!("one")), "fields", "expected u64"),
        (with("workload", json!(7)), "fields", "expected a string"),
        (
            with("workload", json!("")),
            "value",
            "workload is not a name of 1 to 64 characters",
        ),
        (
            with("device", json!("x".repeat(65))),
            "value",
            "device is not a name",
        ),
        (
            with("kind", json!("guessed")),
            "fields",
            "expected one of `measured`, `simulated`, `recorded`",
        ),
        (
            with("minibatch", json!(0)),
            "value",
            "minibatch is 0; expected a number above zero",
        ),
        (
            with("reference", json!("none.wgt")),
            "reference",
            "none.wgt: cannot read: No such file",
        ),
        (
            with("limit_mw", json!(0)),
            "value",
            "limit_mw is 0; expected 0.001 … 4294967295",
        ),
        (with("limit_mw", json!(-5)), "value", "limit_mw is -5"),
        (with("limit_mw", json!(1e300)), "value", "limit_mw is 1"),
        (with_axis(json!([])), "axes", "an axis of the grid is empty"),
        (
            with_axis(json!([0, 5])),
            "axes",
            "not ascending from above zero",
        ),
        (
            with_axis(json!([9, 5])),
            "axes",
            "not ascending from above zero",
        ),
        (with_axis(json!(many)), "axes", "more than 80 values"),
        (with_axis(json!([1.5])), "fields", "1.5"),
        (
            with_axis(json!([5_000_000_000_u64])),
            "fields",
            "5000000000",
        ),
        (r#"{"ask":{}}"#.to_owned(), "order", "the first line is"),
        (
            "[1]".to_owned(),
            "request",
            "a request is an object with the one key",
        ),
        (String::new(), "json", "EOF"),
    ] {
        let (found, text) = planner.refused(&line);
        assert_eq!(found, code, "{line}: {text}");
        assert!(text.contains(message), "{line}: {text}");
    }
    let start = json!({"version": 2, "axes": axes(), "modes": 8});
    assert_eq!(planner.send(&start), json!({"ready": {"modes": 96}}));
    planner.end();
}

#[test]
fn a_defective_request_is_refused_by_name_and_changes_nothing() {
    let mut planner = Planner::with(&json!({"version": 2, "axes": axes(), "modes": 8}));
    let asked = planner.asked();
    let lowest = mode(LOWEST);
    planner.tell(&lowest);
    let next = planner.asked();
    let foreign = mode([5, 400_000, 300_000, 800_000]);
    let tell = |mode: &Value, time: Value, power: Value| {
        json!({"tell": {"mode": mode, "time_us": time, "power_mw": power}}).to_string()
    };
    let start = json!({"version": 2, "axes": axes(), "modes": 8}).to_string();
    for (line, code, message) in [
        (
            "ask".to_owned(),
            "json",
            "expected value at line 1 column 1",
        ),
        ("{\"ask\":{}".to_owned(), "json", "EOF"),
        ("{\"ask\":{}} {}".to_owned(), "json", "trailing characters"),
        ("{\"ask\":{},\"ask\":{}}".to_owned(), "fields", "expected"),
        (
            "{\"ask\":{},\"tell\":{}}".to_owned(),
            "request",
            "the one key",
        ),
        ("{}".to_owned(), "request", "the one key"),
        (
            "{\"stop\":{}}".to_owned(),
            "request",
            "ask, tell, exclude, idle or fit",
        ),
        ("{\"ask\":null}".to_owned(), "fields", "null"),
        (
            "{\"fit\":{}}".to_owned(),
            "few",
            "cannot fit 1 modes: at least 5 are needed; measure more",
        ),
        (
            "{\"fit\":{\"modes\":9}}".to_owned(),
            "fields",
            "unknown field `modes`",
        ),
        (
            "{\"ask\":{\"now\":{}}}".to_owned(),
            "fields",
            "unknown field `now`",
        ),
        (
            "{\"ask\":{\"current\":{\"cores\":1}}}".to_owned(),
            "fields",
            "missing field `cpu_khz`",
        ),
        (
            json!({"ask": {"current": foreign}}).to_string(),
            "mode",
            "5 cores, CPU 400000 kHz",
        ),
        (start, "order", "started before"),
        (
            tell(&foreign, json!(1), json!(1_000)),
            "mode",
            "is not a mode of the grid",
        ),
        (
            tell(&lowest, json!(1), json!(1_000)),
            "told",
            "was told before",
        ),
        (
            tell(&asked, json!(1), json!(24.2)),
            "value",
            "power_mw is 24.2; expected milliwatts",
        ),
        (
            tell(&asked, json!(0), json!(1)),
            "value",
            "time_us is 0; expected",
        ),
        (
            tell(&asked, json!(1), json!(-1)),
            "value",
            "power_mw is -1; expected",
        ),
        (
            tell(&asked, json!(1e200), json!(1)),
            "value",
            "time_us is 1",
        ),
        (tell(&asked, json!(null), json!(1)), "fields", "null"),
        (
            "{\"tell\":{\"time_us\":1e999}}".to_owned(),
            "json",
            "number out of range",
        ),
        (
            json!({"tell": {"mode": asked, "time_us": 1}}).to_string(),
            "fields",
            "`power_mw`",
        ),
        (
            json!({"exclude": {"mode": foreign}}).to_string(),
            "mode",
            "is not a mode of the grid",
        ),
        (
            json!({"exclude": {"mode": asked, "power_mw": 0}}).to_string(),
            "value",
            "power_mw is 0",
        ),
        ("x".repeat(70_000), "long", "at most 65536 bytes"),
        ("[".repeat(50_000), "json", "recursion limit"),
    ] {
        let (found, text) = planner.refused(&line);
        assert_eq!(found, code, "{line}: {text}");
        assert!(text.contains(message), "{line}: {text}");
    }
    let not_text = planner.send_bytes(b"{\"ask\":{\"current\":\"\xff\"}}");
    assert_eq!(not_text["error"]["code"], "json");
    assert_eq!(planner.asked(), next);
    assert_eq!(planner.tell(&next), json!({"told": {"measured": 2}}));
    planner.end();
}

/// The model of a `fit` with its answer.
fn fitted(planner: &mut Planner) -> (Vec<u8>, Value) {
    let mut answer = planner.send(&json!({"fit": {}}));
    match serde_json::from_value(answer.clone()).expect("an answer") {
        Answer::Fitted { model, .. } => (model, answer["fitted"].take()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_of_the_told_modes_can_be_had_at_any_time() {
    let start = json!({"version": 2, "axes": axes(), "modes": 9, "seed": 3, "workload": "job",
        "device": "board", "kind": "simulated", "minibatch": 16});
    let mut planner = Planner::with(&start);
    let tell_one = |planner: &mut Planner| {
        let mode = planner.asked();
        planner.tell(&mode);
        mode
    };
    for _ in 0..4 {
        tell_one(&mut planner);
        assert_eq!(planner.refused("{\"fit\":{}}").0, "few");
    }
    tell_one(&mut planner);
    let (of_five, answer) = fitted(&mut planner);
    assert_eq!(answer["modes"], 5);
    assert_eq!(fitted(&mut planner).0, of_five, "a fit changes nothing");
    for _ in 5..9 {
        tell_one(&mut planner);
    }
    let (of_nine, answer) = fitted(&mut planner);
    assert!(planner.send(&json!({"ask": {}}))["enough"].is_object());
    planner.end();

    let model = Model::parse(&of_nine).expect("a model");
    assert_eq!(model.grid().modes(), 96);
    let provenance = model.provenance().expect("a provenance");
    // The errors that the answer states stand in the file as well.
    let stated = |target: &str| {
        let error = answer["expected_error_pct"][target].as_f64();
        error.map(|error| (100.0 * error).round() as u16)
    };
    assert!(stated("time").is_some() && stated("power").is_some());
    assert_eq!(
        provenance,
        Provenance {
            kind: Kind::Simulated,
            device: "board",
            workload: "job",
            minibatch: Some(16),
            seed: 3,
            modes_used: 9,
            modes_held_out: 0,
            time_error: stated("time"),
            power_error: stated("power"),
        }
    );
    for target in ["time", "power"] {
        let error = answer["expected_error_pct"][target].as_f64();
        assert!(error.is_some_and(|error| error < 30.0), "{answer}");
    }
}

#[test]
fn a_reference_must_be_sound_and_of_the_same_board() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    common::write(folder.path(), "corpus.csv", common::corpus().join("\n"));
    let fit = run(folder.path(), "fit corpus.csv --modes 20 -o ref.wgt");
    assert_eq!(fit.code, 0, "{}", fit.stderr);
    let model = std::fs::read(folder.path().join("ref.wgt")).expect("a model");
    common::write(folder.path(), "short.wgt", &model[..200]);
    common::write(folder.path(), "empty.csv", "");
    let with = |reference: &str| json!({"version": 2, "axes": axes(), "modes": 9, "limit_mw": 4_000, "reference": path(reference)});
    let mut planner = Planner::start();
    for (reference, why) in [
        (
            "short.wgt",
            "short.wgt: truncated: shorter than its header says",
        ),
        ("empty.csv", "empty.csv: the file is empty"),
    ] {
        let (code, message) = planner.refused(&with(reference).to_string());
        assert_eq!(code, "reference");
        assert!(message.contains(why), "{message}");
    }
    let mut other = with("ref.wgt");
    other["axes"]["gpu_khz"] = json!([300_000, 600_000, 1_000_000]);
    let (code, message) = planner.refused(&other.to_string());
    assert_eq!(code, "board");
    let why = "ref.wgt is of another board: this one has no GPU clock of 900000 kHz";
    assert!(message.ends_with(why), "{message}");

    // The planner is of the workload that the model is of.
    let mut same = with("ref.wgt");
    same["device"] = json!("board");
    same["workload"] = json!("job");
    let (code, message) = planner.refused(&same.to_string());
    assert_eq!(code, "reference");
    let why = "it is of this workload on this board";
    assert!(message.contains(why), "{message}");

    // A reference that has what is told is named with the second mode: one may be alike by chance.
    let mut planner = Planner::with(&with("corpus.csv"));
    let mode = planner.asked();
    planner.tell(&mode);
    let mode = planner.asked();
    let [time_us, power_mw] = made_up(&mode);
    let tell = json!({"tell": {"mode": mode, "time_us": time_us, "power_mw": power_mw}});
    let (code, message) = planner.refused(&tell.to_string());
    assert_eq!(code, "reference");
    assert!(
        message.contains("corpus.csv is no reference: 2 of its modes"),
        "{message}"
    );
    planner.end();

    // A model and a corpus are both references, and change the model.
    common::write(
        folder.path(),
        "other.csv",
        common::corpus_of_another().join("\n"),
    );
    let mut models = Vec::new();
    let fit = run(folder.path(), "fit other.csv --modes 20 -o other.wgt");
    assert_eq!(fit.code, 0, "{}", fit.stderr);
    for reference in [Some("other.wgt"), Some("other.csv"), None] {
        let mut start = with("");
        start["reference"] = reference.map_or(Value::Null, |name| json!(path(name)));
        let mut planner = Planner::with(&start);
        for _ in 0..9 {
            let mode = planner.asked();
            planner.tell(&mode);
        }
        models.push(fitted(&mut planner).0);
        planner.end();
    }
    assert!(models[0] != models[2] && models[1] != models[2]);
}

/// Asks for a plan of 15 modes and reports a measurement of each. One of them has half of its true power; returns
/// that mode.
fn with_a_wrong_reading() -> (Planner, Value) {
    let mut planner = Planner::with(&json!({"version": 2, "axes": axes(), "modes": 15}));
    let mut wrong = Value::Null;
    for at in 0..15 {
        let mode = planner.asked();
        if at == 9 {
            let [time_us, power_mw] = made_up(&mode);
            let half =
                json!({"tell": {"mode": mode, "time_us": time_us, "power_mw": power_mw / 2.0}});
            planner.send(&half);
            wrong = mode;
        } else {
            planner.tell(&mode);
        }
    }
    (planner, wrong)
}

fn ends_with_15_good_modes(mut planner: Planner) {
    let enough = planner.send(&json!({"ask": {}}));
    assert_eq!(enough["enough"]["measured"], 15, "{enough}");
    let error = &enough["enough"]["expected_error_pct"]["power"];
    assert!(error.as_f64() < Some(5.0), "{enough}");
    planner.end();
}

#[test]
fn a_mode_whose_reading_contradicts_the_others_is_asked_for_again() {
    let (mut planner, wrong) = with_a_wrong_reading();
    // The second reading does not show which one is wrong; the third one does.
    for _ in 0..2 {
        let again = planner.asked();
        assert_eq!(again, wrong);
        let told = planner.tell(&again);
        assert_eq!(told["told"]["measured"], 15);
    }
    ends_with_15_good_modes(planner);
}

#[test]
fn a_mode_that_cannot_be_measured_again_is_replaced_by_another() {
    for readings in [1, 2] {
        let (mut planner, wrong) = with_a_wrong_reading();
        for _ in 1..readings {
            assert_eq!(planner.asked(), wrong);
            planner.tell(&wrong);
        }
        assert_eq!(planner.asked(), wrong);
        planner.send(&json!({"exclude": {"mode": wrong}}));
        let other = planner.asked();
        assert_ne!(other, wrong);
        assert_eq!(planner.tell(&other)["told"]["measured"], 15);
        ends_with_15_good_modes(planner);
    }
}

#[test]
fn extreme_measurements_do_not_stop_it() {
    let limits = [None, Some(1e-3), Some(4e9)];
    for limit_mw in limits {
        let mut start = json!({"version": 2, "axes": axes(), "modes": 7});
        limit_mw
            .iter()
            .for_each(|limit| start["limit_mw"] = json!(limit));
        let mut planner = Planner::with(&start);
        for (at, value) in [1e-3, 4e9, 1e-3, 4e9, 1.0, 1.0].into_iter().enumerate() {
            let answer = planner.send(&json!({"ask": {}}));
            let mode = match &answer["measure"]["mode"] {
                Value::Null => break,
                mode => mode.clone(),
            };
            let power_mw = f64::max(value, 100.0);
            let told = json!({"mode": mode, "time_us": value, "power_mw": power_mw});
            assert_eq!(
                planner.send(&json!({"tell": told}))["told"]["measured"],
                at + 1
            );
        }
        planner.end();
    }
}

#[test]
fn it_takes_no_other_source_of_modes() {
    for other in [
        "--axes a b c d",
        "a.csv",
        "--board a.csv",
        "--skip-blank",
        "--output a.csv",
        "--modes 8",
        "--json",
    ] {
        let refused = run(folder().path(), &format!("plan --ask-tell {other}"));
        assert_eq!(refused.code, 2, "{other}");
        assert!(
            refused.stderr.contains("cannot be used with"),
            "{}",
            refused.stderr
        );
    }
}

/// A planner takes idle powers, and its model has them.
#[test]
fn idle_powers_that_are_told_are_in_the_model() {
    let start = json!({"version": 2, "axes": axes(), "modes": 9, "seed": 3});
    let mut planner = Planner::with(&start);
    let asked = planner.asked();
    let idle = |power_mw: f64| json!({"idle": {"mode": asked, "power_mw": power_mw}});
    assert_eq!(planner.refused(&idle(2.5).to_string()).0, "value");
    assert_eq!(planner.send(&idle(150.0)), json!({"told": {"measured": 0}}));
    assert_eq!(planner.asked(), asked, "the plan stays");
    for _ in 0..5 {
        let mode = planner.asked();
        planner.tell(&mode);
    }
    let (bytes, _) = fitted(&mut planner);
    planner.end();
    let model = Model::parse(&bytes).expect("a model");
    let idle = model.idle().expect("it decodes").expect("a power");
    assert_eq!((idle.base.0, idle.share), (150, 0));
}
