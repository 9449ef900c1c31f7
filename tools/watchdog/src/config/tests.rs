//! Keys, quantities and defaults of a config.

use wattgate_cli::aim::By;
use wattgate_runtime::governor::Budget;
use wattgate_runtime::{Microseconds, Milliseconds, Objective};

use super::*;
use crate::supply::MeterUnit;

const SAMPLE: &str = include_str!("../../wattgated.toml");

fn parse(text: &str) -> Result<Config, String> {
    let parsed = Config::parse(text, Path::new("w.toml"));
    parsed.map_err(|error| error.to_string())
}

fn refused(line: &str) -> String {
    let text = format!("version = 1\nmodel = \"m.wgt\"\n{line}\n");
    parse(&text).expect_err(line)
}

#[test]
fn a_written_config_has_any_path_and_its_limit() {
    for path in [
        "m.wgt",
        r#"a "quoted" \folder/m.wgt"#,
        "tab\tand\nline",
        "über/модель",
    ] {
        let written = parse(&text(Some(Path::new(path)), Milliwatts(20_500))).expect(path);
        assert_eq!(written.model.as_deref(), Some(Path::new(path)));
        assert_eq!(written.limit.power, Milliwatts(20_500));
    }
}

#[test]
fn the_sample_is_valid_and_shows_the_defaults() {
    let config = parse(SAMPLE).expect("a config");
    assert_eq!(config.limit.power, Milliwatts(15_000));
    assert_eq!(config.limit.average, None);
    // Optional keys are commented out and show the default, or an example if off by default.
    let mut all = SAMPLE.to_owned();
    for key in keys(SAMPLE) {
        all = all.replace(&format!("\n#{key} ="), &format!("\n{key} ="));
    }
    // The objective's default has no use for a deadline.
    let alone = parse(&all).expect_err("refused");
    assert!(
        alone.contains("the fastest mode has no use for a deadline"),
        "{alone}"
    );
    let all = all.replace("\"fastest\"\n", "\"least-energy\"\n");
    let shown = parse(&all).expect("a config");
    let aim = Wanted {
        objective: Objective::Energy,
        by: Some(By::Step(Microseconds(33_000))),
    };
    assert_eq!(shown.aim, aim);
    assert_eq!(shown.confidence, config.confidence);
    assert_eq!(shown.too_hot_mc, Some(95_000));
    let average = Average {
        power: Milliwatts(12_000),
        window: Milliseconds(60_000),
    };
    assert_eq!(shown.limit.average, Some(average));
    assert_eq!(config.aim, Wanted::FASTEST);
    assert_eq!(shown.max_limit, Some(Milliwatts(20_000)));
    let supply = shown.supply.as_ref().map(ToString::to_string);
    assert_eq!(supply.as_deref(), Some("the module's power / 0.9 + 2.5 W"));
    assert_eq!(shown.limit_place(), Place::Supply);
    assert_eq!(config.limit_place(), Place::Module);
    assert_eq!(shown.backstop, Some(Margin::default()));
    assert_eq!(config.backstop, None);
    let schedule = shown.schedule.expect("a schedule");
    assert_eq!(schedule.limit_at(0), Milliwatts(10_000));
    let budget = Budget {
        millijoules: 144_000_000,
        time: Milliseconds(5_400_000),
    };
    assert_eq!(shown.limit.budget, Some(budget));
    assert_eq!(shown.cores, Some(Cores { least: 4, most: 4 }));
    assert_eq!((shown.clocks, config.cores), (config.clocks, None));
    assert_eq!(
        (shown.memory, config.memory),
        (Memory::DEFAULT, Memory::DEFAULT)
    );
    assert_eq!(shown.group.as_deref(), Some("wattgate"));
    let file = "/var/lib/prometheus/node-exporter/wattgate.prom";
    assert_eq!(shown.metrics, Some(Metrics::File(file.into())));
    let device = Path::new("/dev/watchdog0");
    assert_eq!(shown.hardware_watchdog.as_deref(), Some(device));
    let off = (config.schedule, config.limit.budget, config.group);
    assert_eq!(off, (None, None, None));
    assert_eq!(config.max_limit, None);
    assert_eq!((config.metrics, config.hardware_watchdog), (None, None));
    assert!(shown.observe && !config.observe);
}

/// All keys of a sample config, commented out or not.
fn keys(sample: &str) -> Vec<String> {
    let key = |line: &str| {
        let (key, _) = line.trim_start_matches('#').split_once(" = ")?;
        let is_key = key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
        is_key.then(|| key.to_owned())
    };
    sample.lines().filter_map(key).collect()
}

#[test]
fn the_sample_documents_every_key() {
    // serde's error lists all keys.
    let all = refused("limits = 1");
    let (_, all) = all.split_once("expected one of ").expect("a list");
    let all = all.trim_end_matches("; see wattgated.toml(5)");
    let all: Vec<&str> = all.split(", ").map(|it| it.trim_matches('`')).collect();
    let gone = ["on_stop", "state_dir", "sensor_samples"];
    let all: Vec<&str> = all.into_iter().filter(|key| !gone.contains(key)).collect();
    assert_eq!(keys(SAMPLE), all);
}

/// What a unit runs after a start that failed writes nothing, whatever the defect was.
#[test]
fn a_config_with_a_defect_may_still_ask_to_observe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.toml");
    let observes_with = |text: &str| {
        fs::write(&path, text).expect("written");
        observes(&path)
    };
    for text in [
        "version = 1\nobserve = true\n",
        "observe = true # for now\nlimit = 15\n",
        "observe = \"yes\"\n",
        "limit = 15W\n observe=true\n",
        "limit = \"15W\nobserve = maybe\n",
    ] {
        assert!(observes_with(text), "{text}");
    }
    for text in [
        "version = 1\nlimit = \"15W\"\n",
        "observe = false\n",
        "#observe = true\n",
        "limit = 15W\nobserve = false\n",
        "limit = 15W\n#observe = true\n",
    ] {
        assert!(!observes_with(text), "{text}");
    }
    assert!(!observes(&folder.path().join("absent")));
}

#[test]
fn an_unknown_key_is_refused() {
    assert_eq!(
        refused("limit = \"15W\"\nlimits = 1"),
        "w.toml:4: unknown field `limits`, expected one of `version`, `model`, `limit`, \
         `max_limit`, `supply`, `backstop`, `backstop_margin`, `schedule`, `average`, `budget`, \
         `confidence`, `too_hot`, `cores`, `objective`, `deadline`, `clocks`, `memory`, `group`, `metrics`, \
         `hardware_watchdog`, `observe`, `on_stop`, `state_dir`, `sensor_samples`; see wattgated.toml(5)"
    );
    assert_eq!(
        refused("limit = \"15W\"\naverage = { power = \"9W\", window = \"9s\", of = 1 }"),
        "w.toml:4: unknown field `of`, expected `power` or `window`; see wattgated.toml(5)"
    );
}

#[test]
fn a_missing_key_is_named() {
    assert_eq!(
        parse(""),
        Err("w.toml:1: missing field `version`; see wattgated.toml(5)".to_owned())
    );
    assert_eq!(
        refused(""),
        "w.toml:1: missing field `limit`; see wattgated.toml(5)"
    );
}

#[test]
fn another_version_is_refused_before_its_keys_are_read() {
    let error = parse("version = 2\nwatts = 15").expect_err("refused");
    assert_eq!(
        error,
        "w.toml: version is 2, expected 1, which this release reads; write version = 1 and its keys, see wattgated.toml(5)"
    );
}

#[test]
fn a_limit_is_never_rounded_up() {
    for (text, milliwatts) in [("15.0009W", 15_000), ("15 w", 15_000), ("15.1W", 15_100)] {
        let text = format!("version = 1\nmodel = \"m.wgt\"\nlimit = \"{text}\"\n");
        let config = parse(&text).expect("a config");
        assert_eq!(config.limit.power, Milliwatts(milliwatts));
    }
}

#[test]
fn a_quantity_needs_a_unit_and_a_value_in_range() {
    let power = "expected a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"; \
                 or a current of 1mA to 100A";
    for (line, found) in [
        ("limit = 15", "type: integer `15`"),
        ("limit = 15.5", "type: floating point `15.5`"),
        ("limit = true", "type: boolean `true`"),
        ("limit = \"15\"", "value: string \"15\""),
        ("limit = \"15kW\"", "value: string \"15kW\""),
        ("limit = \"15MW\"", "value: string \"15MW\""),
        ("limit = \"-15W\"", "value: string \"-15W\""),
        ("limit = \"infW\"", "value: string \"infW\""),
        ("limit = \"1e4W\"", "value: string \"1e4W\""),
        ("limit = \"W\"", "value: string \"W\""),
        ("limit = \"0W\"", "value: string \"0W\""),
        ("limit = \"1001W\"", "value: string \"1001W\""),
    ] {
        assert_eq!(refused(line), format!("w.toml:3: invalid {found}, {power}"));
    }
    for (line, expected) in [
        (
            "average = { power = \"12W\", window = 60 }",
            "invalid type: integer `60`, expected a time of 1s to 1440min with its unit, \
             such as \"60s\" or \"5min\"",
        ),
        (
            "average = { power = \"12W\", window = \"100ms\" }",
            "invalid value: string \"100ms\", expected a time of 1s to 1440min with its \
             unit, such as \"60s\" or \"5min\"",
        ),
        (
            "too_hot = \"95F\"",
            "invalid value: string \"95F\", expected a temperature of 20C to 120C with its \
             unit, such as \"95C\"",
        ),
        (
            "confidence = 95.0",
            "invalid value: floating point `95.0`, expected a probability of 0.5 to 0.9999, \
             such as 0.95",
        ),
    ] {
        let error = refused(&format!("limit = \"15W\"\n{line}"));
        assert_eq!(error, format!("w.toml:4: {expected}"));
    }
}

#[test]
fn a_budget_is_an_energy_and_a_time() {
    let refused = |budget: &str| refused(&format!("limit = \"15W\"\nbudget = {budget}"));
    let energy = "expected an energy of 1J to 10000Wh with its unit, such as \"40Wh\" or \
                  \"900J\"";
    let time = "expected a time of 1min to 240h with its unit, such as \"90min\" or \"8h\"";
    for (budget, error) in [
        (
            "{ energy = \"40Wh\" }",
            "missing field `time`; see wattgated.toml(5)".to_owned(),
        ),
        (
            "{ energy = 40, time = \"90min\" }",
            format!("invalid type: integer `40`, {energy}"),
        ),
        (
            "{ energy = \"40kWh\", time = \"90min\" }",
            format!("invalid value: string \"40kWh\", {energy}"),
        ),
        (
            "{ energy = \"40Wh\", time = \"30s\" }",
            format!("invalid value: string \"30s\", {time}"),
        ),
        (
            "{ energy = \"1J\", time = \"240h\" }",
            "the budget's energy divided by its time must be 1mW to 1000W; change one of them"
                .to_owned(),
        ),
        (
            "{ energy = \"10000Wh\", time = \"1h\" }",
            "the budget's energy divided by its time must be 1mW to 1000W; change one of them"
                .to_owned(),
        ),
    ] {
        assert_eq!(refused(budget), format!("w.toml:4: {error}"));
    }
}

#[test]
fn no_limit_of_the_config_exceeds_max_limit() {
    let with = |limit: &str, scheduled: &str| {
        format!(
            "limit = \"{limit}\"\nmax_limit = \"20W\"\nschedule = [{{ at = \"06:00Z\", \
             limit = \"9W\" }}, {{ at = \"22:00Z\", limit = \"{scheduled}\" }}]"
        )
    };
    let text = format!("version = 1\nmodel = \"m\"\n{}", with("20W", "20W"));
    let config = parse(&text).expect("a config");
    assert_eq!(config.max_limit, Some(Milliwatts(20_000)));
    assert_eq!(
        refused(&with("20.001W", "15W")),
        "w.toml: limit is 20.001 W, over max_limit = 20 W; lower the one or raise the other"
    );
    assert_eq!(
        refused(&with("15W", "30W")),
        "w.toml: the schedule's limit at 22:00Z is 30 W, over max_limit = 20 W; lower the one or raise the other"
    );
}

#[test]
fn a_memory_is_a_time_or_for_ever() {
    let with = |memory: &str| format!("version = 1\nmodel = \"m\"\nlimit = \"9W\"\n{memory}");
    for (text, memory) in [
        ("memory = \"90s\"", Some(Milliseconds(90_000))),
        ("memory = \"24h\"", Some(Milliseconds(86_400_000))),
        ("memory = \"for ever\"", None),
    ] {
        assert_eq!(parse(&with(text)).expect(text).memory, Memory(memory));
    }
    for found in ["ever", "0s", "500ms", "25h", "10"] {
        let error = refused(&format!("limit = \"15W\"\nmemory = \"{found}\""));
        assert_eq!(
            error,
            format!(
                "w.toml:4: invalid value: string \"{found}\", expected a time of 1min to 24h \
                 with its unit, such as \"10min\", or \"for ever\""
            )
        );
    }
}

/// Configs of earlier versions start the daemon.
#[test]
fn keys_of_earlier_versions_have_no_effect() {
    let with = |lines: &str| {
        parse(&format!(
            "version = 1\nmodel = \"m\"\nlimit = \"15W\"\n{lines}"
        ))
    };
    assert!(with("").expect("a config").no_effect.is_empty());
    for lines in [
        "on_stop = \"restore\"",
        "state_dir = \"/x\"",
        "sensor_samples = 64",
        "on_stop = \"keep\"\nstate_dir = \"/x\"",
    ] {
        let said = with(lines).expect("a config").no_effect;
        assert_eq!(said.len(), lines.lines().count());
        for (line, why) in lines.lines().zip(said) {
            let (key, _) = line.split_once(' ').expect("a key");
            assert!(why.starts_with(&format!("{key} has no effect: ")), "{why}");
        }
    }
}

#[test]
fn an_average_above_every_limit_has_no_effect() {
    let no_effect = |lines: &str| {
        let text = format!(
            "version = 1\nlimit = \"15W\"\naverage = {{ power = \"16W\", window = \"60s\" }}\n{lines}"
        );
        parse(&text).expect("a config").no_effect
    };
    let [why] = no_effect("")[..] else {
        panic!("one message");
    };
    assert!(why.starts_with("average has no effect: "), "{why}");
    for reached in [
        "max_limit = \"20W\"",
        "schedule = [{ at = \"06:00Z\", limit = \"17W\" }]",
    ] {
        assert!(no_effect(reached).is_empty(), "{reached}");
    }
}

#[test]
fn a_limit_may_be_a_current() {
    let text = "version = 1\nmodel = \"m\"\nmax_limit = \"24W\"\nlimit = \"5A\"";
    let mut config = parse(text).expect("a config");
    assert_eq!(config.current, Some(Milliamperes(5_000)));
    // Until the voltage is known, that of an under-voltage counts.
    assert_eq!(config.limit.power, Milliwatts(22_500));
    config.set_input(4_704);
    assert_eq!(config.limit.power, Milliwatts(23_520));
    config.set_input(5_200);
    assert_eq!(config.limit.power, Milliwatts(24_000), "max_limit");
    let milli = parse("version = 1\nmodel = \"m\"\nlimit = \"900 mA\"").expect("a config");
    assert_eq!(milli.current, Some(Milliamperes(900)));
    let power = parse("version = 1\nmodel = \"m\"\nlimit = \"5W\"").expect("a config");
    assert_eq!(power.current, None);
    for wrong in ["0A", "101A", "5kA", "A", "-1A"] {
        let error = refused(&format!("limit = \"{wrong}\""));
        assert!(error.ends_with("or a current of 1mA to 100A"), "{error}");
    }
}

#[test]
fn a_supply_has_an_efficiency_an_offset_or_a_meter() {
    let config = |supply: &str| {
        let text = format!("version = 1\nmodel = \"m\"\nlimit = \"20W\"\nsupply = {supply}");
        parse(&text).expect(supply)
    };
    for (supply, module) in [
        ("{ efficiency = 0.9, offset = \"2.5W\" }", 15_750),
        ("{ efficiency = 1 }", 20_000),
        ("{ efficiency = 0.1 }", 2_000),
        ("{ efficiency = 0.333333 }", 6_666),
        ("{ offset = \"25W\" }", 0),
        (
            "{ meter = \"/sys/class/hwmon/hwmon3/power1_input\" }",
            20_000,
        ),
    ] {
        let draw = config(supply).draw();
        assert_eq!(
            draw.module(Milliwatts(20_000)),
            Milliwatts(module),
            "{supply}"
        );
    }
    for (meter, unit) in [
        (
            "/sys/class/hwmon/hwmon3/power12_average",
            MeterUnit::Microwatts,
        ),
        (
            "/sys/class/power_supply/BAT0/power_now",
            MeterUnit::Microwatts,
        ),
        ("/run/plug\", meter_unit = \"W", MeterUnit::Watts),
        (
            "/run/power_input\", meter_unit = \"mW",
            MeterUnit::Milliwatts,
        ),
        (
            "/sys/x/power1_input\", meter_unit = \"uW",
            MeterUnit::Microwatts,
        ),
    ] {
        let config = config(&format!("{{ meter = \"{meter}\" }}"));
        let meter = config.supply.and_then(|it| it.meter).expect("a meter");
        assert_eq!(meter.unit, unit, "{}", meter.path.display());
    }
    // tests/golden/messages.txt has what is refused.
}

#[test]
fn cores_are_a_number_or_a_range() {
    let with = |cores: &str| format!("limit = \"9W\"\ncores = {cores}");
    for (text, least, most) in [("4", 4, 4), ("\"4\"", 4, 4), ("\"2-8\"", 2, 8)] {
        let text = format!("version = 1\nmodel = \"m\"\n{}", with(text));
        let cores = parse(&text).expect("a config").cores;
        assert_eq!(cores, Some(Cores { least, most }));
    }
    let expected = "expected a number of cores, 1 to 64, or a range such as \"2-8\"";
    for wrong in [
        "0", "65", "-4", "4.5", "\"8-2\"", "\"2-\"", "\"two\"", "true",
    ] {
        let error = refused(&with(wrong));
        assert!(error.ends_with(expected), "{error}");
    }
    let error = refused("limit = \"9W\"\nclocks = \"free\"");
    let expected = "invalid value: string \"free\", expected \"pin\" or \"cap\"";
    assert_eq!(error, format!("w.toml:4: {expected}"));
}

#[test]
fn metrics_are_served_at_loopback_addresses_only() {
    let refused = |at: &str| refused(&format!("limit = \"15W\"\nmetrics = \"{at}\""));
    for address in ["0.0.0.0:9753", "192.168.55.1:9753", "[::]:9753"] {
        assert_eq!(
            refused(address),
            format!(
                "w.toml:4: `{address}`: expected a loopback address, such as \
                 \"127.0.0.1:9753\""
            )
        );
    }
    for text in [
        "9753",
        "localhost:9753",
        "127.0.0.1",
        "127.0.0.1:99999",
        "m.prom",
        "",
    ] {
        assert_eq!(
            refused(text),
            format!(
                "w.toml:4: `{text}`: expected a loopback address with its port, such as \
                 \"127.0.0.1:9753\", or an absolute path that ends in .prom"
            )
        );
    }
    assert_eq!(
        refused("/run/wattgated/metrics"),
        "w.toml:4: `/run/wattgated/metrics`: the file name must end in .prom"
    );
    let text = "version = 1\nmodel = \"m\"\nlimit = \"9W\"\nmetrics = \"[::1]:9753\"";
    let address = "[::1]:9753".parse().expect("an address");
    let config = parse(text).expect("a config");
    assert_eq!(config.metrics, Some(Metrics::Address(address)));
}

#[test]
fn a_schedule_replaces_the_power_of_the_limit_and_nothing_else() {
    let config = parse(
        "version = 1\nmodel = \"m\"\nlimit = \"15W\"\n\
         average = { power = \"9W\", window = \"60s\" }\n\
         schedule = [{ at = \"00:00Z\", limit = \"20W\" }]",
    );
    let config = config.expect("a config");
    let limit = config.limit_at(UtcSeconds(1_800_000_000));
    assert_eq!(limit.power, Milliwatts(20_000));
    assert_eq!(limit.average, config.limit.average);
    assert_eq!(config.limit_at(UtcSeconds(0)), config.limit);
}

#[test]
fn quantities_are_exact() {
    for (text, milliwatts) in [
        ("15W", 15_000),
        ("7.5 W", 7_500),
        ("12345mW", 12_345),
        ("0.001W", 1),
    ] {
        let text = format!("version = 1\nmodel = \"m\"\nlimit = \"{text}\"");
        let config = parse(&text).expect("a config");
        assert_eq!(config.limit.power, Milliwatts(milliwatts));
    }
}

#[test]
fn invalid_toml_is_explained() {
    let power = "a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"; or a current of 1mA to 100A";
    for (line, error) in [
        ("limit = \"15W", "the text has no closing quote; add `\"`"),
        ("limit = 15W", "`15W` needs quotes; write limit = \"15W\""),
        (
            "limit = “15W”",
            "limit has curly quotes; write straight ones, as in limit = \"…\"",
        ),
        (
            "limit = 07:32:00",
            &format!("`07:32:00` is a time without quotes, expected {power}; put quotes around it"),
        ),
    ] {
        assert_eq!(refused(line), format!("w.toml:3: {error}"));
    }
    let memory = "a time of 1min to 24h with its unit, such as \"10min\", or \"for ever\"";
    for (line, error) in [
        (
            "limit = \"9W\"",
            "the key is given twice; keep one of the lines",
        ),
        (
            "schedule = [{ at = 22:00:00, limit = \"9W\" }]",
            "`22:00:00` is a time without quotes, expected a time of day in UTC, such as \"06:00Z\"; put quotes around it",
        ),
        (
            "backstop = true",
            "invalid type: boolean `true`, expected \"hardware\"",
        ),
        (
            "clocks = 1",
            "invalid type: integer `1`, expected \"pin\" or \"cap\"",
        ),
        (
            "memory = 10",
            &format!("invalid type: integer `10`, expected {memory}"),
        ),
        (
            "average = \"12W\"",
            "invalid type: string \"12W\", expected a table such as { power = \"12W\", window = \"60s\" }",
        ),
        (
            "schedule = \"9W\"",
            "invalid type: string \"9W\", expected a list such as [{ at = \"06:00Z\", limit = \"15W\" }]",
        ),
        (
            "group = 5",
            "invalid type: integer `5`, expected a text in quotes",
        ),
    ] {
        assert_eq!(
            refused(&format!("limit = \"15W\"\n{line}")),
            format!("w.toml:4: {error}")
        );
    }
}

#[test]
fn a_backstop_has_a_margin_in_its_range() {
    let config = |keys: &str| {
        let text = format!("version = 1\nmodel = \"m\"\nlimit = \"10W\"\n{keys}");
        parse(&text)
    };
    let margin = |keys: &str| {
        let config = config(keys).expect("a config");
        config
            .backstop
            .map(|margin| margin.for_limit(Milliwatts(10_000)))
    };
    assert_eq!(margin(""), None);
    let on = "backstop = \"hardware\"\n";
    assert_eq!(margin(on), Some(Milliwatts(2_000)));
    for (part, milliwatts) in [("0.05", 500), ("0.5", 5_000), ("1.0", 10_000)] {
        let keys = format!("{on}backstop_margin = {part}");
        assert_eq!(margin(&keys), Some(Milliwatts(milliwatts)), "{part}");
    }
    for part in ["0.04", "1.1", "-0.2", "nan", "inf"] {
        let error = config(&format!("{on}backstop_margin = {part}")).expect_err(part);
        assert!(error.contains("w.toml:5: "), "{error}");
        assert!(
            error.ends_with("expected a part of the limit, 0.05 to 1"),
            "{error}"
        );
    }
    assert_eq!(
        config("backstop_margin = 0.2"),
        Err(
            "w.toml: backstop_margin needs backstop = \"hardware\"; add that line, or take the margin out"
                .to_owned()
        )
    );
    let error = config("backstop = \"software\"").expect_err("refused");
    assert_eq!(
        error,
        "w.toml:4: invalid value: string \"software\", expected \"hardware\""
    );
}

#[test]
fn an_objective_and_a_deadline_are_named() {
    let line = |objective: &str, deadline: &str| {
        format!("limit = \"15W\"\nobjective = \"{objective}\"\ndeadline = \"{deadline}\"")
    };
    let error = refused(&line("energy", "33ms"));
    let names = "w.toml:4: `energy`: expected fastest, least-power, least-energy or least-edp";
    assert_eq!(error, names);
    for wrong in ["33", "0ms", "33 frames", "-1ms", "2h"] {
        let error = refused(&line("least-power", wrong));
        let start =
            format!("w.toml:5: invalid value: string \"{wrong}\", expected a time of a step");
        assert!(error.starts_with(&start), "{error}");
    }
    let error = refused(&line("fastest", "33ms"));
    assert!(
        error.starts_with("w.toml: the fastest mode has no use for a deadline; "),
        "{error}"
    );
    let text = format!(
        "version = 1\nmodel = \"m.wgt\"\n{}\n",
        line("least-edp", "2.5s")
    );
    let aim = parse(&text).expect("a config").aim;
    let step = By::Step(Microseconds(2_500_000));
    assert_eq!(
        (aim.objective, aim.by),
        (Objective::EnergyDelay, Some(step))
    );
}
