//! The scenarios: what happens, and when.

use std::time::Duration;

use wattgate_watchdog::clock::UtcSeconds;

use super::cases::Case;
use crate::holder::Incident;
use crate::models::WORKLOAD;

/// Midnight UTC of a day in 2027, in s since 1970.
const DAY: i64 = 1_799_971_200;

/// What happens to the board and to the holder. Times are in s since the start.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The printed name.
    pub name: &'static str,
    /// The length of a run, in s.
    pub length: u64,
    /// Commands of the simulator's control language. `*` stands for each power rail, `GPU` for
    /// the file of the GPU's highest clock, `FAN` for that of the fan, `HALF_CPU` and `HALF_GPU`
    /// for clocks in the middle of the tables, `MAXN` for nvpmodel's mode without caps, and `BATTERY`
    /// for the case's orders.
    pub orders: &'static [&'static str],
    /// When the second and the third of the case's limits begin to hold.
    pub steps: Option<[u64; 2]>,
    /// The steps are in the daemon's schedule. The wall clock jumps to their times of day: by eight
    /// hours, and then back by sixteen.
    pub by_clock: bool,
    /// What happens to the holder, and when.
    pub incident: Option<(u64, Incident)>,
    /// Each seed draws another unit of the board.
    pub units: bool,
    /// The daemon sets the backstop in hardware.
    pub backstop: bool,
    /// No fault: sensor and writes work, and only the power limits the speed.
    pub nominal: bool,
}

const fn nominal(name: &'static str, orders: &'static [&'static str]) -> Scenario {
    Scenario {
        name,
        length: 180,
        orders,
        steps: None,
        by_clock: false,
        incident: None,
        units: false,
        backstop: false,
        nominal: true,
    }
}

/// A scenario with a fault.
pub const fn fault(name: &'static str, orders: &'static [&'static str]) -> Scenario {
    Scenario {
        nominal: false,
        ..nominal(name, orders)
    }
}

/// Another program that sets nvpmodel's mode without caps again and again.
pub const MAXN_EVERY_30_S: &str = "MAXN every 30 s";

/// Clocks that follow a mode later than those of any board do.
pub const LATER_CLOCKS: &str = "clocks 100 to 300 ms late";

/// A sensor of which one read in five fails.
pub const READS_FAIL: &str = "a fifth of the reads fails";

/// All scenarios in simulated time.
pub const SCENARIOS: &[Scenario] = &[
    nominal("steady", &[]),
    Scenario {
        steps: Some([60, 120]),
        ..nominal("limit stepped", &[])
    },
    Scenario {
        steps: Some([60, 120]),
        by_clock: true,
        ..nominal("clock jumps", &[])
    },
    nominal("workload changed", &["at 100 load mobilenetv3"]),
    nominal("model 30 % too high", &["power 0.7"]),
    nominal("model 15 % too high", &["power 0.85"]),
    nominal("model 15 % too low", &["power 1.15"]),
    nominal("model 30 % too low", &["power 1.3"]),
    Scenario {
        units: true,
        ..nominal("another board", &[])
    },
    nominal("ambient +30 K", &["at 60 ambient 55"]),
    nominal(
        "enclosure without air",
        &["at 60 ambient 55", "at 60 write FAN 0"],
    ),
    Scenario {
        steps: Some([60, 120]),
        ..nominal(
            "late clocks",
            &["delay cpu 12", "delay gpu 107", "delay emc 26"],
        )
    },
    nominal("nvpmodel run again", &["at 100 service"]),
    nominal("jetson_clocks", &["at 100 jetson-clocks"]),
    nominal(
        MAXN_EVERY_30_S,
        &[
            "at 20 nvpmodel MAXN",
            "at 50 nvpmodel MAXN",
            "at 80 nvpmodel MAXN",
            "at 110 nvpmodel MAXN",
            "at 140 nvpmodel MAXN",
            "at 170 nvpmodel MAXN",
        ],
    ),
    Scenario {
        incident: Some((100, Incident::BadModel)),
        ..nominal("model file defective", &[])
    },
    Scenario {
        incident: Some((100, Incident::Suspend(30))),
        ..fault("suspend 30 s", &["at 100 load off", "at 130 load resnet18"])
    },
    fault(
        "cooling caps 60 s",
        &[
            "at 50 cool cpu HALF_CPU",
            "at 50 cool gpu HALF_GPU",
            "at 110 cool cpu off",
            "at 110 cool gpu off",
        ],
    ),
    fault(
        "firmware throttles 60 s",
        &["at 50 throttle 4", "at 110 throttle off"],
    ),
    fault("battery sags", &["BATTERY"]),
    Scenario {
        incident: Some((100, Incident::Kill)),
        ..fault("killed", &[])
    },
    fault(
        "sensor missing 0.5 s",
        &["at 100 sensor * missing", "at 100.5 sensor * ok"],
    ),
    fault(
        "sensor missing 3 s",
        &["at 100 sensor * missing", "at 103 sensor * ok"],
    ),
    fault(
        "sensor missing 30 s",
        &["at 100 sensor * missing", "at 130 sensor * ok"],
    ),
    // For 50 ms of each 250 ms.
    fault(
        READS_FAIL,
        &[
            "at 1.1 every 0.25 sensor * missing",
            "at 1.15 every 0.25 sensor * ok",
            "at 100 load mobilenetv3",
        ],
    ),
    // A lower limit, or more load, would be exceeded for as long as the clocks are late.
    fault(
        LATER_CLOCKS,
        &[
            "delay cpu 100",
            "delay gpu 300",
            "delay emc 200",
            "power 1.15",
            "at 100 load mobilenetv3",
        ],
    ),
    // A frozen sensor shows only when the load changes.
    fault(
        "sensor frozen 30 s",
        &[
            "at 100 sensor * frozen",
            "at 105 load off",
            "at 115 load resnet18",
            "at 130 sensor * ok",
        ],
    ),
    Scenario {
        backstop: true,
        ..fault("model 30 % too low, backstop", &["power 1.3"])
    },
    Scenario {
        incident: Some((60, Incident::Suspend(60))),
        backstop: true,
        ..fault(
            "hung 60 s, backstop",
            &["at 65 power 1.3", "at 115 power 1"],
        )
    },
    Scenario {
        incident: Some((100, Incident::Kill)),
        backstop: true,
        ..fault("killed, backstop", &["at 100.2 power 1.3"])
    },
    fault(
        "writes ignored 30 s",
        &["at 50 ignore GPU", "at 80 allow GPU"],
    ),
    fault(
        "writes refused 30 s",
        &["at 50 refuse GPU EIO", "at 80 allow GPU"],
    ),
];

impl Scenario {
    /// The scenario of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// Whether the scenario can run on a board. A recorded board has one workload.
    pub fn suits(&self, case: &Case) -> bool {
        let mut loads = self
            .timeline()
            .filter_map(|(_, it)| it.strip_prefix("load "));
        let has_workloads =
            case.recorded.is_none() || loads.all(|it| [WORKLOAD, "off"].contains(&it));
        has_workloads && (case.has_backstop || !self.backstop)
    }

    /// The length of a run.
    pub fn length(&self) -> Duration {
        Duration::from_secs(self.length)
    }

    /// The limits of a case in mW, each with the time from which it holds.
    pub fn limits(&self, case: &Case) -> Vec<(Duration, u32)> {
        match self.steps {
            None => vec![(Duration::ZERO, case.limit_mw)],
            Some([second, third]) => {
                let times = [0, second, third].map(Duration::from_secs);
                times.into_iter().zip(case.stepped_mw).collect()
            }
        }
    }

    fn steps_before(&self, at: Duration) -> usize {
        let steps = self.steps.iter().flatten();
        steps.filter(|step| at.as_secs() >= **step).count()
    }

    /// The wall clock at a time since the start.
    pub fn utc(&self, at: Duration) -> UtcSeconds {
        let hours = [12, 20, 4][if self.by_clock {
            self.steps_before(at)
        } else {
            0
        }];
        UtcSeconds(DAY + 3_600 * hours + at.as_secs() as i64)
    }

    /// Whether the sensor works all the time.
    pub fn has_sensor(&self) -> bool {
        !self.orders.iter().any(|order| order.contains("sensor"))
    }

    /// Each order with its time.
    fn timeline(&self) -> impl Iterator<Item = (Duration, &'static str)> {
        self.orders.iter().map(|order| {
            let timed = order.strip_prefix("at ");
            let timed = timed.and_then(|rest| rest.split_once(' '));
            let timed = timed.and_then(|(at, order)| Some((at.parse().ok()?, order)));
            let (at, order) = timed.unwrap_or((0.0, *order));
            (Duration::from_secs_f64(at), order)
        })
    }

    /// The workload at a time; none while the board is suspended.
    pub fn workload(&self, at: Duration) -> Option<&'static str> {
        let loads = self.timeline().filter(|(from, _)| *from <= at);
        let loads = loads.filter_map(|(_, order)| order.strip_prefix("load "));
        Some(loads.last().unwrap_or(WORKLOAD)).filter(|name| *name != "off")
    }

    /// The factor on the workload's power at a time.
    pub fn power_factor(&self, at: Duration) -> f64 {
        let factors = self.timeline().filter(|(from, _)| *from <= at);
        let factors = factors.filter_map(|(_, order)| order.strip_prefix("power "));
        factors
            .last()
            .and_then(|factor| factor.parse().ok())
            .unwrap_or(1.0)
    }

    /// The times at which load, limit, mode or holder are changed from outside.
    pub fn changes(&self) -> Vec<Duration> {
        let orders = self.timeline().map(|(at, _)| at);
        let steps = self.steps.into_iter().flatten().map(Duration::from_secs);
        let mut changes: Vec<Duration> = orders.chain(steps).collect();
        if let Some((at, what)) = self.incident {
            let ends = match what {
                Incident::Suspend(time) => at + time,
                Incident::Kill | Incident::BadModel => at,
            };
            changes.push(Duration::from_secs(ends));
        }
        changes
    }

    /// The time at which the holder is killed or can know that the sensor is lost. A frozen sensor
    /// shows only when the load changes.
    pub fn loss(&self) -> Option<Duration> {
        let is_frozen = self.orders.iter().any(|order| order.ends_with("frozen"));
        let first_sign = if is_frozen { "load" } else { "sensor" };
        let is_fault = is_frozen || !self.has_sensor();
        let mut orders = self.timeline().filter(|_| is_fault);
        let sensor = orders.find_map(|(at, order)| order.starts_with(first_sign).then_some(at));
        let killed = self.incident.filter(|(_, what)| *what == Incident::Kill);
        sensor.or(killed.map(|(at, _)| Duration::from_secs(at)))
    }
}
