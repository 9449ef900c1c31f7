//! Aims of clients: an objective below the limit, deadlines of steps and of work, and the steps that are told.

use wattgate_cli::aim::{By, Wanted};
use wattgate_runtime::{Milliseconds, Milliwatts, Objective};
use wattgate_watchdog::quantity::Aimed;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::serve::protocol::{Refused, Request, WantedAim, WantedLease};

use crate::common::Rig;
use crate::server::{Client, Server};

const LEAST_POWER: WantedAim = WantedAim {
    objective: Aimed(Objective::Power),
    deadline_us: None,
    steps: None,
    within_ms: None,
};

fn lease(watts: u32, aim: WantedAim) -> Request {
    Request::Lease(WantedLease {
        aim: Some(aim),
        ..WantedLease::from_power(Milliwatts(1_000 * watts))
    })
}

fn shown(report: &Report) -> Option<&str> {
    report.aim.as_deref()
}

/// Runs the board for some seconds. Ten times a second the client tells the daemon a number of steps: `told` makes it of the
/// true number.
fn run(
    server: &mut Server,
    client: &mut Client,
    seconds: u64,
    told: impl Fn(f64) -> u64,
) -> Report {
    let end = server.rig.clocks.now.get() + 1_000 * seconds;
    while server.rig.clocks.now.get() < end {
        let due = server.rig.clocks.now.get() + 100;
        while server.rig.clocks.now.get() < due {
            server.rig.step();
        }
        let done = server.rig.daemon.files().tree.jetson().minibatches();
        let report = server.ask(client, Request::Steps(told(done)));
        assert!(report.is_ok(), "{report:?}");
    }
    server.rig.daemon.report()
}

/// A daemon on a board whose model is that of its GPU.
fn server(lines: &str) -> Server {
    Server::from_rig(Rig::on("xavier-agx", lines))
}

fn steps(server: &mut Server) -> f64 {
    server.rig.daemon.files().tree.jetson().minibatches()
}

/// The time of a step in the fastest mode within the limit, in µs.
fn fastest_us(server: &mut Server) -> u32 {
    server.rig.run(30);
    let done = steps(server);
    server.rig.run(30);
    (30e6 / (steps(server) - done)) as u32
}

#[test]
fn the_aim_of_the_newest_lease_holds_then_roots_then_the_configs() {
    let mut server = Server::with("limit = \"30W\"\nobjective = \"least-edp\"");
    server.open_root();
    assert_eq!(shown(&server.rig.daemon.report()), Some("least-edp"));
    let energy = WantedAim {
        objective: Aimed(Objective::Energy),
        deadline_us: Some(40_000),
        ..LEAST_POWER
    };
    let mut root = server.with_root(Request::SetAim(Some(energy)));
    let of_root = "least-energy, at most 40 ms a step";
    assert_eq!(shown(&server.rig.daemon.report()), Some(of_root));
    let first = server.with_client(lease(25, LEAST_POWER));
    let work = WantedAim {
        steps: Some(50_000),
        within_ms: Some(21_600_000),
        ..LEAST_POWER
    };
    let second = server.with_client(lease(25, work));
    let of_second = "least-power, 50000 steps within 6 h";
    assert_eq!(shown(&server.rig.daemon.report()), Some(of_second));
    server.end(second);
    assert_eq!(shown(&server.rig.daemon.report()), Some("least-power"));
    server.end(first);
    assert_eq!(shown(&server.rig.daemon.report()), Some(of_root));
    let report = server
        .ask(&mut root, Request::SetAim(None))
        .expect("lifted");
    assert_eq!(shown(&report), Some("least-edp"));
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut server = Server::new();
    let mut client = server.connect();
    let aim = |objective, deadline_us, steps, within_ms| {
        lease(
            20,
            WantedAim {
                objective: Aimed(objective),
                deadline_us,
                steps,
                within_ms,
            },
        )
    };
    let power = Objective::Power;
    for (request, name, message) in [
        (
            aim(Objective::Time, Some(33_000), None, None),
            "malformed",
            "the fastest mode has no use for a deadline",
        ),
        (
            aim(Objective::Time, None, Some(9), Some(60_000)),
            "malformed",
            "the fastest mode has no use for a deadline",
        ),
        (
            aim(power, Some(1), Some(9), Some(60_000)),
            "malformed",
            "two deadlines, ",
        ),
        (
            aim(power, Some(1), None, Some(60_000)),
            "malformed",
            "two deadlines, ",
        ),
        (
            aim(power, None, Some(9), None),
            "malformed",
            "a number of steps and the time ",
        ),
        (
            aim(power, None, None, Some(60_000)),
            "malformed",
            "a number of steps and the time ",
        ),
        (
            aim(power, None, Some(0), Some(60_000)),
            "out_of_range",
            "the number of steps is 0, ",
        ),
        (
            aim(power, None, Some(u64::MAX), Some(60_000)),
            "out_of_range",
            "the number of steps is 18446744073709551615, ",
        ),
        (
            aim(power, None, Some(1), Some(59_999)),
            "out_of_range",
            "within_ms is 59999, ",
        ),
        (
            aim(power, Some(0), None, None),
            "out_of_range",
            "deadline_us is 0, ",
        ),
        (
            Request::SetAim(Some(LEAST_POWER)),
            "not_root",
            "set_aim is for root alone, ",
        ),
        (Request::Steps(1), "no_lease", "steps count under a lease"),
    ] {
        let refused: Refused = server.ask(&mut client, request).expect_err(message);
        assert_eq!(refused.name, name, "{refused:?}");
        assert!(refused.message.starts_with(message), "{refused:?}");
    }
    let report = server.rig.daemon.report();
    assert_eq!((shown(&report), report.limit_mw), (None, 30_000));
    assert!(report.claims.is_empty());
    // Two objectives, and an unknown one.
    for text in [
        "{\"version\":1,\"request\":{\"lease\":{\"power_mw\":9000,\"aim\":{\"objective\":\"fast\"}}}}\n",
        "{\"version\":1,\"request\":{\"lease\":{\"power_mw\":9000,\"aim\":{\"objective\":\"fastest\",\"objective\":\"least-power\"}}}}\n",
        "{\"version\":1,\"request\":{\"lease\":{\"power_mw\":9000,\"aim\":{}}}}\n",
        "{\"version\":1,\"request\":{\"steps\":-1}}\n",
        "{\"version\":1,\"request\":{\"steps\":1.5}}\n",
    ] {
        client.send(text.as_bytes());
        server.turn();
        assert_eq!(client.error(), "malformed", "{text}");
    }
}

#[test]
fn a_deadline_of_a_step_is_met_at_less_power_and_ends_with_the_lease() {
    let mut server = server("limit = \"30W\"");
    let fastest = fastest_us(&mut server);
    let power = |server: &mut Server| {
        let energy = |server: &Server| server.rig.daemon.report().energy_mj;
        let before = energy(server);
        server.rig.run(10);
        (energy(server) - before) / 10
    };
    let before = power(&mut server);
    let deadline = fastest + fastest / 2;
    let aim = WantedAim {
        deadline_us: Some(deadline),
        ..LEAST_POWER
    };
    let mut client = server.with_client(lease(30, aim));
    let report = run(&mut server, &mut client, 60, |done| done as u64);
    assert_eq!(report.unmet, None, "{report}");
    let done = steps(&mut server);
    run(&mut server, &mut client, 60, |done| done as u64);
    let us = 60e6 / (steps(&mut server) - done);
    let less = power(&mut server);
    assert!(less < before - before / 10, "{less} {before}");
    assert!(us <= f64::from(deadline), "{us} {deadline}");
    assert!(us > f64::from(fastest), "{us} {fastest}");
    server.end(client);
    server.rig.run(120);
    let after = power(&mut server);
    assert!(after > before - before / 20, "{after} {before}");
}

#[test]
fn work_is_done_in_its_time_and_not_much_sooner() {
    for part in [1.1, 1.5, 2.5] {
        let mut server = server("limit = \"30W\"");
        let fastest = f64::from(fastest_us(&mut server));
        let begun = server.rig.daemon.files().tree.jetson().minibatches();
        let within_ms = 600_000;
        let steps = (1e3 * within_ms as f64 / (part * fastest)) as u64;
        let aim = WantedAim {
            steps: Some(steps),
            within_ms: Some(within_ms),
            ..LEAST_POWER
        };
        let start = server.rig.clocks.now.get();
        let mut client = server.with_client(lease(30, aim));
        let mut report = server.rig.daemon.report();
        while report.steps < Some(steps) {
            report = run(&mut server, &mut client, 1, |done| (done - begun) as u64);
        }
        let passed = server.rig.clocks.now.get() - start;
        let used = passed as f64 / within_ms as f64;
        assert!((0.9..=1.0).contains(&used), "{part}: {used}, {report}");
    }
}

#[test]
fn of_roots_work_only_the_steps_from_then_on_count() {
    let mut server = server("limit = \"30W\"");
    server.open_root();
    let mut worker =
        server.with_client(Request::Lease(WantedLease::from_power(Milliwatts(30_000))));
    let mut tell = |server: &mut Server, steps| {
        let report = server.ask(&mut worker, Request::Steps(steps));
        report.expect("taken").steps
    };
    assert_eq!(tell(&mut server, 5_000), Some(5_000));
    let work = WantedAim {
        steps: Some(100),
        within_ms: Some(60_000),
        ..LEAST_POWER
    };
    let root = server.with_root(Request::SetAim(Some(work)));
    assert_eq!(tell(&mut server, 5_040), Some(40));
    // A workload that begins anew has done none of them.
    assert_eq!(tell(&mut server, 7), Some(0));
    drop(root);
    assert_eq!(
        shown(&server.rig.daemon.report()),
        Some("least-power, 100 steps within 1 min")
    );
}

#[test]
fn late_work_runs_as_fast_as_the_limit_allows_and_says_so() {
    let mut server = server("limit = \"20W\"");
    let fastest = fastest_us(&mut server);
    let aim = WantedAim {
        steps: Some(1_000_000),
        within_ms: Some(60_000),
        ..LEAST_POWER
    };
    let mut client = server.with_client(lease(20, aim));
    // Steps that stand still.
    let report = run(&mut server, &mut client, 30, |_| 5);
    let unmet = report.unmet.expect("unmet");
    assert!(
        unmet.contains("the fastest mode within the limit takes up to"),
        "{unmet}"
    );
    let report = run(&mut server, &mut client, 60, |_| 5);
    assert_eq!(
        report.unmet.as_deref(),
        Some(
            "the time for the work is over and 999995 steps are left: the fastest mode within the limit runs"
        )
    );
    assert_eq!(report.remaining_ms, Some(0));
    assert!(report.measured_mw.expect("measured") <= 20_000, "{report}");
    let again = fastest_us(&mut server);
    assert!(
        again <= fastest + fastest / 50,
        "{again} {fastest} {report}"
    );
}

#[test]
fn wrong_steps_never_raise_the_power_over_the_limit() {
    let told: [fn(f64) -> u64; 4] = [
        |done| 2 * done as u64,
        |done| (done as u64) / 3,
        |done| if done as u64 % 200 < 100 { 0 } else { u64::MAX },
        |done| 1_000_000_u64.saturating_sub(done as u64),
    ];
    for told in told {
        let mut server = server("limit = \"20W\"");
        let aim = WantedAim {
            deadline_us: Some(20_000),
            objective: Aimed(Objective::Energy),
            ..LEAST_POWER
        };
        let mut client = server.with_client(lease(20, aim));
        server.rig.run(10);
        for _ in 0..60 {
            let report = run(&mut server, &mut client, 1, told);
            let measured = report.measured_mw.unwrap_or(0);
            assert!(measured <= report.allowed_mw + 200, "{report}");
        }
    }
}

#[test]
fn the_status_has_the_energy_of_a_step_of_the_lease_and_of_the_budget() {
    let lines = "limit = \"30W\"\nbudget = { energy = \"30Wh\", time = \"1h\" }";
    let mut server = server(lines);
    server.rig.run(10);
    let report = server.rig.daemon.report();
    assert_eq!(report.lease_mj, None);
    let left = report.budget_left_mj.expect("a budget");
    assert!(left < 108_000_000 && left + report.energy_mj >= 108_000_000 - 1_000);
    let mut client = server.with_client(lease(20, LEAST_POWER));
    let report = run(&mut server, &mut client, 60, |done| done as u64);
    let lease_mj = report.lease_mj.expect("a lease");
    assert!(lease_mj > 0 && lease_mj < report.energy_mj);
    server.end(client);
    server.rig.run(60);
    let (done, energy) = (steps(&mut server), server.rig.daemon.report().energy_mj);
    server.rig.run(60);
    let report = server.rig.daemon.report();
    let true_mj = (report.energy_mj - energy) as f64 / (steps(&mut server) - done);
    let step = report.step.expect("a step");
    let ratio = step.uj as f64 / 1e3 / true_mj;
    assert!((0.9..1.1).contains(&ratio), "{step}, true {true_mj} mJ");
    let slower = report.slower_step.expect("a slower one");
    assert!(slower.us >= step.us, "{slower} {step}");
}

#[test]
fn an_aim_of_the_command_line_is_one_of_the_protocol() {
    let within = Milliseconds(21_600_000);
    for wanted in [
        Wanted::FASTEST,
        Wanted {
            objective: Objective::Energy,
            by: Some(By::Work {
                steps: 3_910,
                within,
            }),
        },
    ] {
        assert_eq!(WantedAim::from_wanted(wanted).checked(), Ok(wanted));
    }
}
