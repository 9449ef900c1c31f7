//! Temperatures by the types of zones, and counters of the over-current protection
//! (`jetson-platform.md`, sections 7 and 6.4).

use std::io;

use crate::files::{Files, Knob};
use crate::search::Search;

const ZONES: &str = "/sys/class/thermal";
const HWMON: &str = "/sys/class/hwmon";

/// Zones without power show this temperature in milli-°C or a lower one (section 7).
const NO_TEMPERATURE_MC: i64 = -100_000;

#[derive(Clone, Debug)]
pub(crate) struct Heat {
    /// Type of each zone, and its temperature in milli-°C.
    zones: Vec<(String, Knob)>,
    events: [Option<Knob>; 3],
}

impl Heat {
    pub(crate) fn find<F: Files>(search: &mut Search<F>) -> Self {
        let directory = search.path(ZONES);
        let mut zones = Vec::new();
        for number in search.numbers(&directory, "thermal_zone") {
            let zone = directory.join(format!("thermal_zone{number}"));
            match search.word(&zone.join("type")) {
                Ok(name) => zones.push((name, Knob(zone.join("temp").into()))),
                Err(why) => search.miss("thermal zone", zone.join("type"), why.kind()),
            }
        }
        if zones.is_empty() {
            search.miss("thermal zones", directory, io::ErrorKind::NotFound);
        }
        let events = counters(search);
        Self { zones, events }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.zones.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn hottest_mc(&self, files: &impl Files) -> Option<i64> {
        let temperatures = self
            .zones
            .iter()
            .filter_map(|(_, zone)| zone.read(files).ok());
        temperatures.filter(|&mc| mc > NO_TEMPERATURE_MC).max()
    }

    pub(crate) fn over_current_events(&self, files: &impl Files) -> [Option<i64>; 3] {
        let read = |event: &Option<Knob>| event.as_ref()?.read(files).ok();
        let [first, second, third] = &self.events;
        [read(first), read(second), read(third)]
    }
}

fn counters<F: Files>(search: &mut Search<F>) -> [Option<Knob>; 3] {
    let directory = search.path(HWMON);
    let mut devices = search.list(&directory).into_iter();
    let device = devices.find_map(|name| {
        let device = directory.join(name);
        let name = search.word(&device.join("name")).ok()?;
        (name == "soctherm_oc").then_some(device)
    });
    let Some(device) = device else {
        search.miss("over-current counters", directory, io::ErrorKind::NotFound);
        return [const { None }; 3];
    };
    [1, 2, 3].map(|event| {
        let file = device.join(format!("oc{event}_event_cnt"));
        search.knob("over-current counter", file)
    })
}
