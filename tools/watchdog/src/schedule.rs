//! Limits by time of day.
//!
//! An entry replaces the config's `limit` from its time until the next entry's time. The last
//! entry of a day holds until the first entry of the next. Times are UTC, so time zones and
//! daylight saving do not matter. When the clock jumps, the entry for the new time holds.
//!
//! A board without a clock battery boots with a wrong date. Until the clock is set, the lowest of
//! `limit` and all entries holds.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Unexpected};
use wattgate_runtime::Milliwatts;

use crate::clock::UtcSeconds;
use crate::quantity::{Power, Text};

const DAY_S: u32 = 86_400;

/// Limits that repeat daily; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<FileEntry>")]
pub struct Schedule {
    /// In ascending order of time.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Seconds since midnight UTC.
    at: u32,
    limit: Milliwatts,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    at: TimeOfDay,
    limit: Power,
}

/// A time such as `06:00Z`, in seconds since midnight.
struct TimeOfDay(u32);

impl TryFrom<Vec<FileEntry>> for Schedule {
    type Error = String;

    fn try_from(entries: Vec<FileEntry>) -> Result<Self, String> {
        if entries.is_empty() {
            return Err(
                "a schedule needs at least one entry; add one, or take the key out".to_owned(),
            );
        }
        for pair in entries.windows(2) {
            if let [before, after] = pair {
                let time = shown(after.at.0);
                match before.at.0.cmp(&after.at.0) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => {
                        return Err(format!(
                            "the schedule has two limits at {time}; keep one of them"
                        ));
                    }
                    std::cmp::Ordering::Greater => {
                        let before = shown(before.at.0);
                        return Err(format!(
                            "the schedule has {time} after {before}; put them in the order of the day"
                        ));
                    }
                }
            }
        }
        let entries = entries.into_iter().map(|entry| Entry {
            at: entry.at.0,
            limit: entry.limit.0,
        });
        Ok(Self {
            entries: entries.collect(),
        })
    }
}

impl Schedule {
    /// The limit at a time of day, in seconds since midnight UTC.
    pub fn limit_at(&self, seconds_of_utc_day: u32) -> Milliwatts {
        let mut entries = self.entries.iter();
        let entry = entries.rfind(|entry| entry.at <= seconds_of_utc_day);
        let entry = entry.or(self.entries.last());
        entry.map_or(Milliwatts(0), |entry| entry.limit)
    }

    /// The limit at a time; `limit` is the config's own.
    pub fn limit(&self, now: UtcSeconds, limit: Milliwatts) -> Milliwatts {
        match now.is_set() {
            true => self.limit_at(now.of_day()),
            false => self
                .entries
                .iter()
                .fold(limit, |least, entry| least.min(entry.limit)),
        }
    }

    /// The highest limit of all entries.
    pub fn highest(&self) -> Milliwatts {
        let limits = self.entries.iter().map(|it| it.limit);
        limits.max().unwrap_or_default()
    }

    /// The entries: time, such as `06:00Z`, and limit.
    pub fn entries(&self) -> impl Iterator<Item = (String, Milliwatts)> {
        self.entries.iter().map(|it| (shown(it.at), it.limit))
    }
}

fn shown(at: u32) -> String {
    format!("{:02}:{:02}Z", at / 3_600, at / 60 % 60)
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "a time of day in UTC, such as \"06:00Z\"";
        let text = from.deserialize_any(Text(expected))?;
        time_of_day(&text)
            .map(Self)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &expected))
    }
}

fn time_of_day(text: &str) -> Option<u32> {
    let (hours, minutes) = text.strip_suffix('Z')?.split_once(':')?;
    let number = |text: &str| {
        let is_plain = text.len() == 2 && text.bytes().all(|it| it.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_plain)
    };
    let minutes = number(minutes).filter(|it| *it < 60)?;
    let at = number(hours)? * 3_600 + minutes * 60;
    (at < DAY_S).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        schedule: Schedule,
    }

    fn parse(entries: &str) -> Result<Schedule, String> {
        let parsed = toml::from_str::<File>(&format!("schedule = [{entries}]"));
        let parsed = parsed.map(|file| file.schedule);
        parsed.map_err(|error| error.message().to_owned())
    }

    fn day_and_night() -> Schedule {
        let entries = "{ at = \"06:00Z\", limit = \"15W\" }, { at = \"22:30Z\", limit = \"10W\" }";
        parse(entries).expect("a schedule")
    }

    #[test]
    fn an_entry_holds_until_the_next_one() {
        let schedule = day_and_night();
        for (hours, minutes, seconds, watts) in [
            (0, 0, 0, 10),
            (5, 59, 59, 10),
            (6, 0, 0, 15),
            (22, 29, 59, 15),
            (22, 30, 0, 10),
            (23, 59, 59, 10),
        ] {
            let at = hours * 3_600 + minutes * 60 + seconds;
            assert_eq!(schedule.limit_at(at), Milliwatts(watts * 1_000), "{at} s");
        }
    }

    #[test]
    fn one_entry_holds_all_day() {
        let schedule = parse("{ at = \"12:00Z\", limit = \"9W\" }").expect("a schedule");
        for at in [0, DAY_S / 2, DAY_S - 1] {
            assert_eq!(schedule.limit_at(at), Milliwatts(9_000));
        }
    }

    #[test]
    fn a_schedule_repeats_daily() {
        let schedule = day_and_night();
        let noon = UtcSeconds(1_800_000_000 / 86_400 * 86_400 + 43_200);
        for days in 0..800 {
            let now = UtcSeconds(noon.0 + days * 86_400);
            let limit = schedule.limit(now, Milliwatts(1));
            assert_eq!(limit, Milliwatts(15_000));
        }
    }

    #[test]
    fn until_the_clock_is_set_the_lowest_limit_holds() {
        let schedule = day_and_night();
        for seconds in [-1, 0, 43_200, 1_704_067_199] {
            let limit = |highest| schedule.limit(UtcSeconds(seconds), Milliwatts(highest));
            assert_eq!(limit(20_000), Milliwatts(10_000));
            assert_eq!(limit(8_000), Milliwatts(8_000));
        }
        let midnight = UtcSeconds(1_704_067_200);
        let noon = UtcSeconds(midnight.0 + 43_200);
        assert_eq!(schedule.limit(midnight, Milliwatts(1)), Milliwatts(10_000));
        assert_eq!(schedule.limit(noon, Milliwatts(1)), Milliwatts(15_000));
    }

    #[test]
    fn bad_schedules_are_refused_with_the_reason() {
        assert_eq!(
            parse("").expect_err("empty"),
            "a schedule needs at least one entry; add one, or take the key out"
        );
        let two = |first: &str, second: &str| {
            let entry = |at: &str| format!("{{ at = \"{at}\", limit = \"9W\" }}");
            parse(&format!("{}, {}", entry(first), entry(second))).expect_err("refused")
        };
        assert_eq!(
            two("06:00Z", "06:00Z"),
            "the schedule has two limits at 06:00Z; keep one of them"
        );
        assert_eq!(
            two("22:00Z", "06:00Z"),
            "the schedule has 06:00Z after 22:00Z; put them in the order of the day"
        );
        for at in [
            "06:00",
            "6:00Z",
            "24:00Z",
            "12:60Z",
            "+1:00Z",
            "06:00:00Z",
            "06:00+01",
            "",
        ] {
            assert_eq!(
                two(at, "23:00Z"),
                format!(
                    "invalid value: string \"{at}\", expected a time of day in UTC, such as \
                     \"06:00Z\""
                )
            );
        }
        let error = parse("{ at = \"06:00Z\", limit = 9 }").expect_err("no unit");
        assert!(
            error.starts_with("invalid type: integer `9`, expected a power"),
            "{error}"
        );
        let error = parse("{ at = \"06:00Z\", limit = \"9W\", to = 1 }").expect_err("a key");
        assert!(error.starts_with("unknown field `to`"), "{error}");
    }
}
