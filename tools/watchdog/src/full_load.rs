//! What modes draw under load: the highest mean over 430 ms in each, and how it rises with the temperature.

use wattgate_runtime::{Milliseconds, Milliwatts, ModeId};

/// Mean load of the GPU in permille from which on a board is sure to be fully loaded, and from which on it works.
const FULL_MEAN_LOAD: f32 = 900.0;
const WORKING_MEAN_LOAD: f32 = 500.0;

/// Time over which load, power and temperature are averaged.
const SMOOTHING: Milliseconds = Milliseconds(2_000);

/// Least difference of temperatures in K that tells how the power rises. Powers of a steady load differ by 1 %.
const LEAST_RISE_K: f32 = 8.0;

/// Modes that are kept; of more, the one with the shortest time goes.
const MOST_DRAWN_MODES: usize = 16;

/// A temperature in °C and the mean power in mW at it.
type Point = [f32; 2];

/// What a mode has drawn under load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    pub mode: ModeId,
    /// The highest mean over 430 ms.
    pub highest: Milliwatts,
    /// Time in this mode on a busy board, and the part of it with a GPU that was fully busy.
    pub busy: Milliseconds,
    pub full: Milliseconds,
    /// Averages now, at the lowest and at the highest temperature.
    now: Point,
    ends: Option<[Point; 2]>,
}

impl Drawn {
    /// ln of the power gained for each K; `None` if the temperature hardly changed.
    pub fn per_kelvin(&self) -> Option<f32> {
        let [[cool, less], [warm, more]] = self.ends?;
        let rise = warm - cool;
        (rise >= LEAST_RISE_K).then(|| (more / less).ln() / rise)
    }

    fn note(
        &mut self,
        passed: Milliseconds,
        power: Milliwatts,
        is_full: bool,
        celsius: Option<f32>,
    ) {
        self.highest = self.highest.max(power);
        self.busy.0 += passed.0;
        if is_full {
            self.full.0 += passed.0;
        }
        let Some(celsius) = celsius else {
            return;
        };
        let part = (passed.0 as f32 / SMOOTHING.0 as f32).min(1.0);
        let at = [celsius, power.0 as f32];
        for (mean, value) in self.now.iter_mut().zip(at) {
            *mean += part * (value - *mean);
        }
        if self.busy >= SMOOTHING {
            let [cool, warm] = self.ends.get_or_insert([self.now; 2]);
            if self.now[0] < cool[0] {
                *cool = self.now;
            }
            if self.now[0] > warm[0] {
                *warm = self.now;
            }
        }
    }
}

/// The modes of a model that were seen under load.
#[derive(Clone, Debug)]
pub struct FullLoad {
    load: Option<f32>,
    /// At most [`MOST_DRAWN_MODES`], for which there is room: the cycle does not allocate.
    modes: Vec<Drawn>,
}

impl Default for FullLoad {
    fn default() -> Self {
        Self {
            load: None,
            modes: Vec::with_capacity(MOST_DRAWN_MODES),
        }
    }
}

impl FullLoad {
    /// Notes the GPU's load in permille, the mean power in a mode since it was set, if it is known and nothing disturbs it,
    /// and the temperature.
    pub fn note(
        &mut self,
        passed: Milliseconds,
        load: Option<u16>,
        in_mode: Option<(ModeId, Milliwatts)>,
        celsius: Option<f32>,
    ) {
        let Some(load) = load.map(f32::from) else {
            self.load = None;
            return;
        };
        let part = (passed.0 as f32 / SMOOTHING.0 as f32).min(1.0);
        let before = self.load.unwrap_or(load);
        let mean = before + part * (load - before);
        self.load = Some(mean);
        let is_at = |least: f32| mean >= least && load >= least;
        let Some((mode, power)) = in_mode.filter(|_| is_at(WORKING_MEAN_LOAD)) else {
            return;
        };
        if let Some(known) = self.modes.iter_mut().find(|it| it.mode == mode) {
            known.note(passed, power, is_at(FULL_MEAN_LOAD), celsius);
            return;
        }
        if self.modes.len() >= MOST_DRAWN_MODES {
            let shortest = self.modes.iter().enumerate().min_by_key(|(_, it)| it.busy);
            if let Some((at, _)) = shortest {
                self.modes.swap_remove(at);
            }
        }
        self.modes.push(Drawn {
            mode,
            highest: power,
            busy: Milliseconds(0),
            full: Milliseconds(0),
            now: [celsius.unwrap_or(0.0), power.0 as f32],
            ends: None,
        });
    }

    /// Forgets all modes: their numbers belong to another model.
    pub fn forget(&mut self) {
        self.modes.clear();
    }

    /// The modes.
    pub fn modes(&self) -> &[Drawn] {
        &self.modes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(all: &mut FullLoad, seconds: u64, load: u16, mode: u16, watts: f32, celsius: f32) {
        for _ in 0..10 * seconds {
            let power = Milliwatts((1e3 * watts) as u32);
            let in_mode = Some((ModeId(mode), power));
            all.note(Milliseconds(100), Some(load), in_mode, Some(celsius));
        }
    }

    #[test]
    fn an_idle_board_teaches_nothing_and_a_busy_one_no_full_load() {
        let mut all = FullLoad::default();
        note(&mut all, 10, 100, 1, 9.0, 40.0);
        assert!(all.modes().is_empty());
        note(&mut all, 10, 700, 1, 20.0, 40.0);
        let busy = all.modes()[0];
        assert!(busy.busy.0 > 7_000 && busy.full.0 == 0, "{busy:?}");
        note(&mut all, 10, 970, 1, 21.0, 41.0);
        let full = all.modes()[0];
        assert!(full.full.0 > 5_000 && full.highest.0 == 21_000, "{full:?}");
        assert_eq!(full.per_kelvin(), None, "the temperature hardly changed");
        // Without the GPU's load, nothing is known.
        all.forget();
        all.note(
            Milliseconds(100),
            None,
            Some((ModeId(1), Milliwatts(9))),
            None,
        );
        assert!(all.modes().is_empty());
    }

    #[test]
    fn the_rise_with_the_temperature_is_found() {
        let mut all = FullLoad::default();
        for celsius in 40..70 {
            let watts = 20.0 * (0.004 * (celsius - 40) as f32).exp();
            note(&mut all, 10, 970, 1, watts, celsius as f32);
        }
        let found = all.modes()[0].per_kelvin().expect("a rise");
        assert!((found / 0.004 - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn modes_beyond_the_room_replace_the_one_with_the_shortest_time() {
        let mut all = FullLoad::default();
        for mode in 0..20 {
            note(
                &mut all,
                if mode == 3 { 1 } else { 5 },
                970,
                mode,
                20.0,
                40.0,
            );
        }
        assert_eq!(all.modes().len(), MOST_DRAWN_MODES);
        assert!(all.modes().iter().all(|it| it.mode != ModeId(3)));
        assert!(all.modes().iter().any(|it| it.mode == ModeId(19)));
    }
}
