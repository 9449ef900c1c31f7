//! The power sensors of a probe, and their readings over time.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wattgate_board::{Disk, Files};

use crate::format::{Content, File, Sample};

/// Interval between two readings: 20 Hz.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// The files of the power sensors that are read over time: voltage, current and power of each
/// channel that is connected.
pub fn sensors(files: &[File]) -> Vec<String> {
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path)?;
        match &file.content {
            Content::Text(text) => Some(text.trim()),
            Content::Fault(_) => None,
        }
    };
    let is_sensor = |path: &&str| {
        let Some((chip, name)) = path.rsplit_once('/') else {
            return false;
        };
        let text = |name: &str| text(&format!("{chip}/{name}"));
        let is_chip = || text("name").is_some_and(|name| name.starts_with("ina"));
        let is_connected = |label: String| text(&label) != Some("NC");
        label_of(name).is_some_and(is_connected) && is_chip() && text(name).is_some()
    };
    let paths = files.iter().map(|file| file.path.as_str());
    paths.filter(is_sensor).map(str::to_owned).collect()
}

/// The file with the label of the channel that a file measures; `None` for other files. Sums and the
/// voltages at shunts are left out: each read takes 0.55 ms of the bus (`jetson-platform.md`, section
/// 6.3).
fn label_of(name: &str) -> Option<String> {
    let channel = |start: &str, end: &str, channels: [&str; 3]| {
        let number = name.strip_prefix(start)?.strip_suffix(end)?;
        channels.contains(&number).then(|| number.to_owned())
    };
    let hwmon = ["in", "curr", "power"].into_iter();
    let iio = ["in_voltage", "in_current"].into_iter();
    let of_hwmon = hwmon.filter_map(|start| channel(start, "_input", ["1", "2", "3"]));
    let of_iio = iio.filter_map(|start| channel(start, "_input", ["0", "1", "2"]));
    let labels = of_hwmon.map(|number| format!("in{number}_label"));
    labels
        .chain(of_iio.map(|number| format!("rail_name_{number}")))
        .next()
}

/// Reads the sensors for a time. `seen` is called after each reading with the time since the start.
pub fn record(
    root: &Path,
    sensors: &[String],
    time: Duration,
    mut seen: impl FnMut(Duration),
) -> Vec<Sample> {
    let paths: Vec<PathBuf> = sensors.iter().map(|it| root.join(&it[1..])).collect();
    let (start, mut samples) = (Instant::now(), Vec::new());
    let mut next = Duration::ZERO;
    while next < time && !paths.is_empty() {
        thread::sleep(next.saturating_sub(start.elapsed()));
        let now = start.elapsed();
        samples.push(Sample {
            time_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
            values: paths.iter().map(|path| number(path)).collect(),
        });
        seen(now);
        // After a pause, such as that of a suspended board, no reading is made up for.
        next = INTERVAL * (start.elapsed().div_duration_f64(INTERVAL) as u32 + 1);
    }
    if let Some(Sample { time_us: first, .. }) = samples.first().cloned() {
        samples.iter_mut().for_each(|it| it.time_us -= first);
    }
    samples
}

fn number(path: &Path) -> Option<i64> {
    let mut buffer = [0; 64];
    Disk.read(path, &mut buffer).ok()?.trim().parse().ok()
}
