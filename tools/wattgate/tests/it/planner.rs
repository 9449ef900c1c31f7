//! A planner beside the profiler, played by a shell.

use wattgate_cli::planning::{Axes, References, Task, VERSION};
use wattgate_profiler::co_process::CoProcess;
use wattgate_profiler::planner::{List, Planner, PlannerError};
use wattgate_runtime::{Kilohertz, PowerMode};

fn task() -> Task {
    Task {
        version: VERSION,
        axes: Axes {
            cores: vec![1, 2],
            cpu_khz: vec![115_200],
            gpu_khz: vec![306_000],
            emc_khz: vec![665_600],
        },
        modes: 2,
        limit_mw: None,
        seed: Some(1),
        workload: Some("yolo".to_owned()),
        device: Some("orin-agx-64".to_owned()),
        reference: References::default(),
        kind: None,
        minibatch: None,
        tpc_pg_mask: None,
        unit: None,
    }
}

fn mode(cores: u32) -> PowerMode {
    PowerMode {
        cores,
        cpu: Kilohertz(115_200),
        gpu: Kilohertz(306_000),
        emc: Kilohertz(665_600),
    }
}

/// A planner that answers the lines in order, whatever it is asked, and records the requests.
fn answers(lines: &[&str], record: &std::path::Path) -> String {
    let answers: Vec<String> = lines
        .iter()
        .map(|line| {
            format!(
                "read -r line; echo \"$line\" >>{0}; echo '{line}'",
                record.display()
            )
        })
        .collect();
    format!(
        "sh -c \"{}\"",
        answers
            .join("; ")
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('$', "\\$")
    )
}

#[test]
fn a_planner_is_asked_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("requests");
    let measure = r#"{"measure":{"mode":{"cores":2,"cpu_khz":115200,"gpu_khz":306000,"emc_khz":665600},"time_us":null,"power_mw":null,"power_at_most_mw":null}}"#;
    let enough = r#"{"enough":{"measured":1,"expected_error_pct":{"time":null,"power":null}}}"#;
    let lines = [
        r#"{"ready":{"modes":2}}"#,
        measure,
        r#"{"told":{"measured":1}}"#,
        r#"{"excluded":{"modes":1}}"#,
        enough,
    ];
    let mut planner = CoProcess::start(&answers(&lines, &record), task()).expect("a shell");
    planner.begin().expect("ready");
    assert_eq!(planner.ask(None).expect("a mode"), Some(mode(2)));
    planner.tell(mode(2), 12.5, 9_000.5).expect("told");
    planner.exclude(mode(1), Some(21_000.0)).expect("excluded");
    assert_eq!(planner.ask(None).expect("an answer"), None);
    let requests = std::fs::read_to_string(&record).expect("requests");
    let knobs = r#""cpu_khz":115200,"gpu_khz":306000,"emc_khz":665600}"#;
    let expected = [
        r#"{"version":2,"axes":{"cores":[1,2],"cpu_khz":[115200],"gpu_khz":[306000],"emc_khz":[665600]},"modes":2,"seed":1,"workload":"yolo","device":"orin-agx-64"}"#.to_owned(),
        r#"{"ask":{}}"#.to_owned(),
        format!(r#"{{"tell":{{"mode":{{"cores":2,{knobs},"time_us":12500.0,"power_mw":9000.5}}}}"#),
        format!(r#"{{"exclude":{{"mode":{{"cores":1,{knobs},"power_mw":21000.0}}}}"#),
        r#"{"ask":{}}"#.to_owned(),
    ];
    assert_eq!(requests.lines().collect::<Vec<_>>(), expected);
}

fn fails(command: &str, expected: &str) {
    let mut planner = CoProcess::start(command, task()).expect("a shell");
    let asked = planner.begin().and_then(|()| planner.ask(None));
    let error = asked.expect_err("no answer");
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_planner_that_fails_is_named() {
    fails("exit 3", "has ended: exit status: 3");
    fails("absent-planner 2>&-", "has ended: exit status: 127");
    fails("echo no", "answers `no`");
    fails(
        r#"echo '{"error":{"code":"axes","message":"cores: empty"}}'"#,
        "cores: empty",
    );
    fails(
        r#"printf '{"ready":{"modes":2}}\n{"told":{"measured":1}}\n'"#,
        "expected `measure` or `enough`",
    );
}

#[test]
fn a_list_leaves_out_what_is_measured_already() {
    let mut list = List([mode(1), mode(2)].into());
    list.tell(mode(1), 1.0, 1.0).expect("told");
    let asked: Result<Vec<_>, PlannerError> =
        std::iter::from_fn(|| list.ask(None).transpose()).collect();
    assert_eq!(asked.expect("modes"), [mode(2)]);
}

#[test]
fn a_reference_that_was_not_asked_for_may_be_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("requests");
    let lines = [
        r#"{"error":{"code":"reference","message":"of another board"}}"#,
        r#"{"ready":{"modes":2}}"#,
    ];
    let command = answers(&lines, &record);
    let task = Task {
        reference: References::One("other.wgt".to_owned()),
        ..task()
    };
    let start = || CoProcess::start(&command, task.clone()).expect("a shell");
    let mut planner = start().with_optional_reference();
    planner.begin().expect("ready without it");
    let requests = std::fs::read_to_string(&record).expect("requests");
    let has_reference = requests.lines().map(|line| line.contains("reference"));
    assert_eq!(has_reference.collect::<Vec<bool>>(), [true, false]);
    let error = start().begin().expect_err("asked for").to_string();
    assert!(error.contains("of another board"), "{error}");
}
