//! Writes files.

use std::time::Duration;

use super::errno::Errno;
use super::faults::{ReadFault, WriteFault};
use super::file::{ChipFile, EmcFile, File, GpuFile, PolicyFile, RailFile};
use super::state::State;
use super::words::{GOVERNORS, GPU_GOVERNORS, POWER_CONTROL, flag, same_mask, unsigned, whole};
use crate::machine::settings::{Governor, rounded};
use crate::sampling::SAMPLES;

/// Value for "no cap" that nvpmodel writes to a file of a 32-bit integer.
const INT_MAX: i64 = i32::MAX as i64;

impl State {
    /// Writes to a file.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        if self.jetson.is_off() {
            return Err(Errno::Eshutdown);
        }
        let (path, file) = self.resolve(path)?;
        let file = file.clone();
        if !file.is_writable() {
            return Err(Errno::Eacces);
        }
        if let Some(ReadFault::Vanished) = self.faults.of_reads(&path) {
            return Err(Errno::Enoent);
        }
        if self.faults.crashed().is_some() {
            return Ok(());
        }
        let now = self.jetson.now();
        match self.faults.of_writes(&path) {
            None => self.apply(&path, &file, text.trim()),
            Some(WriteFault::Refused(errno)) => Err(errno),
            Some(WriteFault::Ignored) => Ok(()),
            Some(WriteFault::Late(delay)) => {
                self.follow(now + delay, path.into_owned(), text);
                Ok(())
            }
            Some(WriteFault::Reverted(delay)) => {
                let before = self.text_of(&path, &file)?;
                self.apply(&path, &file, text.trim())?;
                self.follow(now + delay, path.into_owned(), &before);
                Ok(())
            }
            Some(fault) => self.apply(&path, &file, &fault.text(text)),
        }
    }

    /// Plans a write that a fault delays.
    fn follow(&mut self, at: Duration, path: String, text: &str) {
        self.delayed.push((at, path, text.trim().to_owned()));
    }

    /// The time of the next delayed write.
    pub fn next_delayed(&self) -> Option<Duration> {
        self.delayed.iter().map(|(at, ..)| *at).min()
    }

    /// Makes the delayed writes up to a time.
    pub fn write_delayed(&mut self, now: Duration) {
        let (due, later) = self.delayed.drain(..).partition(|(at, ..)| *at <= now);
        self.delayed = later;
        let due: Vec<(Duration, String, String)> = due;
        for (_, path, text) in due {
            if let Some(file) = self.layout.files.get(&path).cloned() {
                // It may be illegal by now.
                let _ = self.apply(&path, &file, &text);
            }
        }
    }

    fn apply(&mut self, path: &str, file: &File, text: &str) -> Result<(), Errno> {
        match *file {
            File::Register(words) => {
                let word = words.iter().find(|word| **word == text);
                let word = word.ok_or(Errno::Einval)?;
                self.registers.insert(path.to_owned(), word);
            }
            File::Online(core) => {
                let online = flag(text, ["0", "1"])?;
                if core == 0 && !online {
                    return Err(Errno::Ebusy);
                }
                self.jetson
                    .request(|settings| settings.online[core as usize] = online);
            }
            File::Policy(cluster, file) => {
                self.policy_lives(cluster)?;
                self.apply_policy(cluster, file, text)?;
            }
            File::Gpu(file) => self.apply_gpu(file, text)?,
            File::Emc(file) => self.apply_emc(file, text)?,
            File::Rail(rail, file) => {
                let ma = whole(text)?;
                let channel = self.jetson.channel_mut(rail);
                let limit = channel.limit_ma(ma);
                match file {
                    RailFile::Warn => channel.warn_ma = limit,
                    _ => channel.crit_ma = limit,
                }
            }
            File::Sum(chip, _, _) => self.jetson.set_sum_limit(chip, whole(text)?),
            File::Chip(chip, file) => {
                let (sampling, wanted) = (self.jetson.sampling(chip), whole(text)?);
                let sampling = match file {
                    ChipFile::Samples => sampling.with_samples(wanted),
                    ChipFile::Interval => sampling.with_interval_ms(wanted),
                };
                self.jetson.set_sampling(chip, sampling);
            }
            File::FanPwm => {
                let pwm = u8::try_from(whole(text)?).map_err(|_| Errno::Einval)?;
                self.jetson.request(|settings| settings.fan_pwm = Some(pwm));
            }
            _ => return Err(Errno::Eacces),
        }
        Ok(())
    }

    fn apply_policy(&mut self, at: usize, file: PolicyFile, text: &str) -> Result<(), Errno> {
        let khz = |tree: &Self| Ok(rounded(&tree.jetson.board().cpu_khz, unsigned(text)?));
        let mut policy = self.jetson.settings().policies[at];
        match file {
            PolicyFile::Min => policy.min_khz = khz(self)?,
            PolicyFile::Max => policy.max_khz = khz(self)?,
            PolicyFile::Setspeed if policy.governor == Governor::Userspace => {
                policy.setspeed_khz = khz(self)?;
            }
            PolicyFile::Governor => {
                let named = |(_, name): &&(Governor, &str)| *name == text;
                let (governor, _) = GOVERNORS.iter().find(named).ok_or(Errno::Einval)?;
                if policy.governor != *governor {
                    policy.governor = *governor;
                    policy.setspeed_khz = self.jetson.cpu_requested_khz(at);
                }
            }
            _ => return Err(Errno::Einval),
        }
        if policy.min_khz > policy.max_khz {
            return Err(Errno::Einval);
        }
        self.jetson
            .request(|settings| settings.policies[at] = policy);
        Ok(())
    }

    fn apply_gpu(&mut self, file: GpuFile, text: &str) -> Result<(), Errno> {
        let table = &self.jetson.board().gpu_khz;
        let khz = || Ok(rounded(table, unsigned(text)? / 1000));
        let settings = self.jetson.settings();
        let mut gpu = settings.gpu;
        match file {
            GpuFile::Min => gpu.min_khz = khz()?,
            GpuFile::Max => gpu.max_khz = khz()?,
            GpuFile::Governor => gpu.performance = flag(text, GPU_GOVERNORS)?,
            GpuFile::Railgate => gpu.railgate = flag(text, ["0", "1"])?,
            GpuFile::PowerControl => gpu.always_on = flag(text, POWER_CONTROL)?,
            GpuFile::TpcMask => return same_mask(settings.tpc_pg_mask, text),
            GpuFile::FbpMask => return same_mask(settings.fbp_pg_mask, text),
            _ => return Err(Errno::Eacces),
        }
        if gpu.min_khz > gpu.max_khz {
            return Err(Errno::Einval);
        }
        self.jetson.request(|settings| settings.gpu = gpu);
        Ok(())
    }

    fn apply_emc(&mut self, file: EmcFile, text: &str) -> Result<(), Errno> {
        let board = self.jetson.board();
        let settings = self.jetson.settings();
        let mut emc = settings.emc;
        match file {
            EmcFile::Rate => {
                let hz = unsigned(text)?;
                let ceiling = settings.emc_ceiling_khz(board);
                let rates = board.emc_khz.iter().filter(|&&khz| khz <= ceiling);
                let known = rates.copied().find(|&khz| 1000 * u64::from(khz) == hz);
                // BPMP silently drops a value that is not a rate or is above the ceiling (5.3).
                emc.rate_khz = known.or(emc.rate_khz);
            }
            EmcFile::Locked => {
                emc.locked = flag(text, ["0", "1"])?;
                emc.rate_khz = emc.rate_khz.filter(|_| emc.locked);
            }
            EmcFile::Cap => {
                emc.cap_khz = match whole(text)? {
                    -1 | 0 | INT_MAX => None,
                    hz => Some(rounded(&board.emc_khz, hz.max(0) as u64 / 1000)),
                };
            }
        }
        self.jetson.request(|settings| settings.emc = emc);
        Ok(())
    }

    /// The texts that a knob usually takes; empty if it takes any number.
    pub fn words(&self, path: &str) -> Vec<String> {
        let board = self.jetson.board();
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let clocks = |table: &[u32], unit: u64| {
            let clock = |&khz: &u32| (unit * u64::from(khz)).to_string();
            table.iter().map(clock).collect()
        };
        match self.layout.files.get(path) {
            Some(File::Policy(_, PolicyFile::Governor)) => owned(&GOVERNORS.map(|(_, name)| name)),
            Some(File::Policy(..)) => clocks(&board.cpu_khz, 1),
            Some(File::Gpu(GpuFile::Min | GpuFile::Max)) => clocks(&board.gpu_khz, 1000),
            Some(File::Gpu(GpuFile::Governor)) => owned(&GPU_GOVERNORS),
            Some(File::Gpu(GpuFile::PowerControl)) => owned(&POWER_CONTROL),
            Some(File::Emc(EmcFile::Rate)) => clocks(&board.emc_khz, 1000),
            Some(File::Emc(EmcFile::Cap)) => {
                let mut words: Vec<String> = clocks(&board.emc_khz, 1000);
                words.extend(["0".to_owned(), "-1".to_owned()]);
                words
            }
            Some(File::Chip(_, ChipFile::Samples)) => SAMPLES.map(|it| it.to_string()).to_vec(),
            Some(File::FanPwm) => (0..=255).map(|pwm| pwm.to_string()).collect(),
            _ => Vec::new(),
        }
    }
}
