//! The cases: loads and faults, by name. A seed varies phases and durations.

use crate::plant::between;

/// What the file of the GPU's load shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuFile {
    /// The load, smoothed.
    Follows,
    /// There is no such file.
    Missing,
    /// Always the same, in permille.
    Stuck(u16),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// One read in five fails.
    FailedReads,
    /// Another program sets the fastest mode, each 30 s.
    OtherProgram,
    /// The clocks follow so many ms after the command; the read-back shows when.
    LateClocks(f64, f64),
    /// The same, and the read-back shows the new mode at once.
    HiddenLateClocks(f64, f64),
    /// The limit is 45 and 15 W in turn.
    LimitTurns,
    /// The limit is what a battery delivers. It falls, and only over-current events tell, 2–3 s late.
    Battery,
    /// The supply's voltage falls by a fifth for 3 s. The power stays.
    Sags,
    /// The board sleeps for a minute.
    Suspend,
    /// The clock steps back by an hour.
    ClockBack,
    /// The readings of one chip stand still.
    FrozenChip,
    /// The first reading is 0.
    FirstZero,
}

/// A load and a fault.
pub struct Case {
    pub name: &'static str,
    pub load: fn(&mut Script),
    pub gpu: GpuFile,
    /// Whether the workload reports its steps.
    pub has_steps: bool,
    pub fault: Fault,
    pub seconds: usize,
}

impl Case {
    const fn new(name: &'static str, load: fn(&mut Script)) -> Self {
        Self {
            name,
            load,
            gpu: GpuFile::Follows,
            has_steps: false,
            fault: Fault::None,
            seconds: 450,
        }
    }

    const fn gpu(mut self, gpu: GpuFile) -> Self {
        self.gpu = gpu;
        self
    }

    const fn fault(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    const fn seconds(mut self, seconds: usize) -> Self {
        self.seconds = seconds;
        self
    }

    const fn with_steps(mut self) -> Self {
        (self.gpu, self.has_steps) = (GpuFile::Missing, true);
        self
    }

    /// The limits in W that the case is run with.
    pub fn limits(&self) -> &'static [u32] {
        match self.fault {
            Fault::LimitTurns => &[45],
            _ => &[15, 25, 40],
        }
    }

    /// Whether a holder could know of the fault at all.
    pub fn has_ideal(&self) -> bool {
        self.fault != Fault::Battery
    }
}

/// A load, phase after phase.
pub struct Script {
    seed: u64,
    drawn: u64,
    length: usize,
    /// The level in each ms: 0 idle, 1 full work.
    pub levels: Vec<f32>,
    /// Whether the workload makes steps, in each ms.
    pub makes_steps: Vec<bool>,
}

impl Script {
    pub fn from_case(case: &Case, seed: u64) -> Self {
        let mut script = Self {
            seed,
            drawn: 5_000,
            length: 1_000 * case.seconds,
            levels: Vec::new(),
            makes_steps: Vec::new(),
        };
        while script.levels.len() < script.length {
            (case.load)(&mut script);
        }
        script.levels.truncate(script.length);
        script.makes_steps.truncate(script.length);
        script
    }

    fn random(&mut self, from: f64, to: f64) -> f64 {
        self.drawn += 1;
        between(self.seed, self.drawn, from, to)
    }

    fn phase(&mut self, level: f64, seconds: f64, makes_steps: bool) {
        let end = self.levels.len() + (1e3 * seconds) as usize;
        self.levels.resize(end, level as f32);
        self.makes_steps.resize(end, makes_steps);
    }

    /// A phase of a random duration in s.
    fn works(&mut self, level: f64, from: f64, to: f64) {
        let seconds = self.random(from, to);
        self.phase(level, seconds, true);
    }

    /// A pause of a random duration in s.
    fn pauses(&mut self, from: f64, to: f64) {
        let seconds = self.random(from, to);
        self.phase(0.0, seconds, false);
    }
}

fn constant(script: &mut Script) {
    script.phase(1.0, 10.0, true);
}

fn jobs(script: &mut Script) {
    let level = script.random(0.7, 1.3);
    script.works(level, 20.0, 60.0);
    script.pauses(5.0, 20.0);
}

fn chat(script: &mut Script) {
    script.works(1.6, 0.15, 0.4);
    script.works(1.0, 2.0, 12.0);
    script.pauses(0.5, 10.0);
}

fn llm_server(script: &mut Script) {
    script.works(1.6, 0.3, 3.0);
    script.works(1.0, 3.0, 20.0);
    script.pauses(0.0, 8.0);
}

/// Epochs, each followed by a checkpoint and an evaluation that reports no step.
fn training(script: &mut Script) {
    script.works(1.0, 78.0, 82.0);
    script.pauses(3.0, 8.0);
    script.phase(1.25, 10.0, false);
}

fn training_without_pauses(script: &mut Script) {
    script.works(1.0, 85.0, 95.0);
    script.phase(1.25, 10.0, false);
}

fn frames(script: &mut Script) {
    script.works(1.0, 9.7, 10.1);
    script.phase(2.0, 0.12, true);
}

fn rising(script: &mut Script) {
    script.works(0.6, 195.0, 205.0);
    script.works(1.0, 18.0, 22.0);
}

fn low_then_full(script: &mut Script) {
    script.works(0.15, 145.0, 155.0);
    script.works(1.0, 28.0, 32.0);
}

fn long_pauses(script: &mut Script) {
    script.works(1.0, 30.0, 60.0);
    script.phase(0.0, 180.0, false);
}

const BUSY: GpuFile = GpuFile::Stuck(1_000);

pub static CASES: [Case; 22] = [
    Case::new("constant", constant).seconds(300),
    Case::new("chat", chat),
    Case::new("chat, no GPU file", chat).gpu(GpuFile::Missing),
    Case::new("training, steps", training)
        .with_steps()
        .seconds(600),
    Case::new("training, steps and GPU file", training_without_pauses)
        .with_steps()
        .gpu(GpuFile::Follows)
        .seconds(600),
    Case::new("frames of 120 ms", frames),
    Case::new("0.6 then 1", rising).gpu(BUSY).seconds(600),
    Case::new("0.15 then 1", low_then_full)
        .gpu(BUSY)
        .seconds(600),
    Case::new("LLM server", llm_server),
    Case::new("GPU file stuck at 100 %", long_pauses)
        .gpu(BUSY)
        .seconds(600),
    Case::new("GPU file stuck at 0", llm_server).gpu(GpuFile::Stuck(0)),
    Case::new("20 % of the reads fail", jobs).fault(Fault::FailedReads),
    Case::new("MAXN each 30 s", jobs).fault(Fault::OtherProgram),
    Case::new("clocks 90-120 ms late", jobs).fault(Fault::LateClocks(90.0, 120.0)),
    Case::new("clocks 100-300 ms late, hidden", jobs).fault(Fault::HiddenLateClocks(100.0, 300.0)),
    Case::new("limit 45/15 W", llm_server)
        .fault(Fault::LimitTurns)
        .seconds(300),
    Case::new("battery sags", jobs)
        .fault(Fault::Battery)
        .seconds(600),
    Case::new("supply sags", jobs).fault(Fault::Sags),
    Case::new("suspend of 60 s", jobs)
        .fault(Fault::Suspend)
        .seconds(600),
    Case::new("clock back by 1 h", llm_server).fault(Fault::ClockBack),
    Case::new("one chip frozen", llm_server).fault(Fault::FrozenChip),
    Case::new("first reading 0", constant)
        .fault(Fault::FirstZero)
        .seconds(300),
];
