//! Reads files.

use super::errno::Errno;
use super::faults::{SensorFault, half};
use super::file::{ChipFile, CooledPart, EmcFile, File, GpuFile, PolicyFile, RailFile, SumFile};
use super::layout::ranges;
use super::state::State;
use super::words::{GPU_GOVERNORS, POWER_CONTROL, governor_name, hertz};
use crate::machine::settings::Governor;
use crate::sensor::Reading;

/// The fan's speed at full power, in 1/min. Assumed.
const FAN_RPM: u32 = 6000;

impl State {
    /// Reads a file.
    pub fn read(&self, path: &str) -> Result<String, Errno> {
        if self.jetson.is_off() {
            return Err(Errno::Eshutdown);
        }
        let (path, file) = self.resolve(path)?;
        if let Some(fault) = self.faults.of_reads(&path) {
            return Err(fault.errno());
        }
        let text = self.text_of(&path, file)?;
        match self.faults.crashed() {
            Some(crashed) if crashed == path => Ok(half(&text).to_owned()),
            _ => Ok(text),
        }
    }

    /// The text that the file shows; without the fault of a crash.
    pub fn text(&self, path: &str) -> Result<String, Errno> {
        match self.faults.of_reads(path) {
            Some(fault) => Err(fault.errno()),
            None => self.text_of(path, &self.layout.files[path]),
        }
    }

    /// The text of a file without faults.
    pub fn text_of(&self, path: &str, file: &File) -> Result<String, Errno> {
        let (jetson, settings) = (&self.jetson, self.jetson.settings());
        let value: i64 = match file {
            File::Fixed(text) => return Ok(text.clone()),
            File::Register(words) => {
                let word = self.registers.get(path).copied().unwrap_or(words[0]);
                return Ok(format!("{word}\n"));
            }
            File::Cores(None) => return Ok(ranges(&self.online_cores(None))),
            File::Cores(cluster) => {
                let cores = self.online_cores(*cluster);
                let words: Vec<String> = cores.iter().map(u32::to_string).collect();
                return Ok(words.join(" ") + "\n");
            }
            File::Status => return Ok(format!("pmode:{:04}\n", self.status)),
            File::Policy(cluster, file) => {
                self.policy_lives(*cluster)?;
                return Ok(self.policy_text(*cluster, *file) + "\n");
            }
            File::Gpu(file) => return Ok(self.gpu_text(*file) + "\n"),
            File::Rail(rail, file) => return self.rail_text(*rail, *file),
            File::Chip(chip, file) => {
                let sampling = jetson.sampling(*chip);
                match file {
                    ChipFile::Samples => sampling.samples.into(),
                    ChipFile::Interval => sampling.interval_ms(jetson.board().release()).into(),
                }
            }
            File::Sum(chip, rails, file) => self.sum(*chip, rails, *file)?,
            File::Online(core) => self.is_online(*core).into(),
            File::Emc(EmcFile::Rate) => hertz(jetson.emc_khz()),
            File::Emc(EmcFile::Locked) => settings.emc.locked.into(),
            File::Emc(EmcFile::Cap) => match settings.emc.cap_khz {
                None if jetson.board().release() < 36 => 0,
                _ => hertz(settings.emc_ceiling_khz(jetson.board())),
            },
            File::Events(event) => jetson.over_current_events()[*event] as i64,
            File::Temperature => (1000.0 * jetson.die_c()).round() as i64,
            File::Cooling(part) => self.cooling_state(*part),
            File::Unpowered => return Err(Errno::Eagain),
            File::FanPwm => jetson.fan_pwm().into(),
            File::FanRpm => (FAN_RPM * u32::from(jetson.fan_pwm()) / 255).into(),
        };
        Ok(format!("{value}\n"))
    }

    /// Number of entries of the table by which cooling lowers the highest clock of a part.
    fn cooling_state(&self, part: CooledPart) -> i64 {
        let (board, caps) = (self.jetson.board(), self.jetson.caps());
        let (table, cap_khz) = match part {
            CooledPart::Cpu => (&board.cpu_khz, caps.cpu_khz),
            CooledPart::Gpu => (&board.gpu_khz, caps.gpu_khz),
        };
        (table.len() - table.partition_point(|&khz| khz <= cap_khz)) as i64
    }

    fn policy_text(&self, cluster: usize, file: PolicyFile) -> String {
        let policy = &self.jetson.settings().policies[cluster];
        let cap_khz = self.jetson.caps().cpu_khz;
        let khz = match file {
            PolicyFile::Min => policy.min_khz.min(cap_khz),
            PolicyFile::Max => policy.max_khz.min(cap_khz),
            PolicyFile::Requested => self.jetson.cpu_requested_khz(cluster),
            PolicyFile::True => self.jetson.cpu_true_khz(cluster),
            PolicyFile::Governor => return governor_name(policy.governor).to_owned(),
            PolicyFile::Setspeed if policy.governor != Governor::Userspace => {
                return "<unsupported>".to_owned();
            }
            PolicyFile::Setspeed => policy.setspeed_khz,
        };
        khz.to_string()
    }

    fn gpu_text(&self, file: GpuFile) -> String {
        let (settings, gpu) = (self.jetson.settings(), &self.jetson.settings().gpu);
        let cap_khz = self.jetson.caps().gpu_khz;
        let value: i64 = match file {
            GpuFile::Min => hertz(gpu.min_khz.min(cap_khz)),
            GpuFile::Max => hertz(gpu.max_khz.min(cap_khz)),
            GpuFile::Requested => hertz(self.jetson.gpu_requested_khz()),
            GpuFile::True => hertz(self.jetson.gpu_true_khz()),
            GpuFile::Governor => {
                let governor = GPU_GOVERNORS[usize::from(gpu.performance)];
                return governor.to_owned();
            }
            GpuFile::Railgate => gpu.railgate.into(),
            GpuFile::PowerControl => {
                return POWER_CONTROL[usize::from(gpu.always_on)].to_owned();
            }
            GpuFile::TpcMask => settings.tpc_pg_mask.unwrap_or(0).into(),
            GpuFile::FbpMask => settings.fbp_pg_mask.unwrap_or(0).into(),
            GpuFile::Load => (1000.0 * self.jetson.gpu_load()).round() as i64,
        };
        value.to_string()
    }

    /// The reading of a rail's sensor, changed by its fault.
    fn reading(&self, rail: usize) -> Result<Reading, Errno> {
        let channel = self.jetson.channel(rail);
        let reading = channel.reading();
        Ok(match self.faults.of_sensor(rail) {
            None => reading,
            Some(SensorFault::Missing) => return Err(Errno::Enoent),
            Some(SensorFault::Frozen(reading)) => reading,
            Some(SensorFault::Late(by)) => {
                let then = self.jetson.now().saturating_sub(by);
                self.jetson.reading_at(rail, then)
            }
            Some(SensorFault::Absurd) => channel.full_scale(),
            Some(SensorFault::Flipped) => Reading {
                milliamperes: -reading.milliamperes,
                shunt_microvolts: -reading.shunt_microvolts,
                ..reading
            },
        })
    }

    fn rail_text(&self, rail: usize, file: RailFile) -> Result<String, Errno> {
        let (reading, channel) = (self.reading(rail)?, self.jetson.channel(rail));
        let is_iio = self.jetson.board().release() < 35;
        let value: i64 = match file {
            RailFile::Label => return Ok(self.jetson.board().rails[rail].label.clone() + "\n"),
            RailFile::Millivolts => reading.millivolts,
            RailFile::Milliamperes => reading.milliamperes,
            RailFile::Milliwatts => reading.millivolts * reading.milliamperes / 1000,
            RailFile::ShuntMicrovolts => reading.shunt_microvolts,
            RailFile::Shunt => channel.shunt_uohm(),
            // As the driver of JetPack 4 shows them.
            RailFile::Warn if is_iio => return Ok(format!("{} ma\n", channel.warn_ma)),
            RailFile::Crit if is_iio => return Ok(format!("{} ma\n", channel.crit_ma)),
            RailFile::Warn => channel.warn_ma,
            RailFile::Crit => channel.crit_ma,
            RailFile::WarnAlarm => channel.warn_alarm().into(),
            RailFile::CritAlarm => self.jetson.crit_alarm(rail).into(),
        };
        Ok(format!("{value}\n"))
    }

    fn sum(&self, chip: usize, rails: &[usize], file: SumFile) -> Result<i64, Errno> {
        let mut sum = Reading::default();
        for &rail in rails {
            let reading = self.reading(rail)?;
            sum.milliamperes += reading.milliamperes;
            sum.shunt_microvolts += reading.shunt_microvolts;
        }
        let limit = self.jetson.sum_limit(chip);
        Ok(match file {
            SumFile::Milliamperes => sum.milliamperes,
            SumFile::ShuntMicrovolts => sum.shunt_microvolts,
            SumFile::Crit => limit.shown_ma,
            SumFile::CritAlarm => (sum.milliamperes as f64 > limit.true_ma()).into(),
        })
    }
}
