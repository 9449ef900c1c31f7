//! Executes the commands of the control language.

use super::super::faults::SensorFault;
use super::super::file::{CooledPart, File};
use super::super::state::State;
use super::command::{Command, SensorWord};
use super::error::ControlError;

impl State {
    /// Executes a command.
    pub fn obey(&mut self, command: Command) -> Result<(), ControlError> {
        match command {
            Command::Sensor(rail, word) => {
                let fault = match word {
                    SensorWord::Fails(fault) => fault,
                    SensorWord::Freezes => SensorFault::Frozen(self.jetson.channel(rail).reading()),
                    SensorWord::Works => {
                        self.faults.set_sensor(rail, None);
                        return Ok(());
                    }
                };
                self.faults.set_sensor(rail, Some(fault));
            }
            Command::Offset(rail, ma) => self.jetson.set_offset_ma(rail, ma),
            Command::Fault(path, fault) => self.faults.set_writes(path, fault),
            Command::Hide(path, fault) => self.faults.set_reads(path, fault),
            Command::Allow(path) => {
                if !self.faults.allow(&path) {
                    return Err(ControlError::NoFault { path });
                }
            }
            Command::Load(workload) => self.jetson.set_workload(workload.map(|it| *it)),
            Command::Power(factor) => self.jetson.set_power_factor(factor),
            Command::Activity { activity, gpu_load } => self.jetson.set_load(activity, gpu_load),
            Command::Ambient(celsius) => self.jetson.set_ambient_c(celsius),
            Command::Cool(part, khz) => {
                let mut caps = self.jetson.fixed_caps();
                match part {
                    CooledPart::Cpu => caps.cpu_khz = khz,
                    CooledPart::Gpu => caps.gpu_khz = khz,
                }
                self.jetson.set_fixed_caps(caps);
            }
            Command::Throttle(divisor) => self.jetson.set_firmware_divisor(divisor),
            Command::Delay(domain, delay) => self.jetson.set_delay(domain, delay),
            Command::Supply(supply) => self.jetson.set_supply(supply),
            Command::Nvpmodel { id, container } => match container {
                true => self.nvpmodel_in_container(id)?,
                false => self.nvpmodel(id)?,
            },
            Command::Service => self.nvpmodel_service()?,
            Command::JetsonClocks => self.jetson_clocks(),
            Command::Write(path, value) => self
                .write(&path, &value)
                .map_err(|errno| ControlError::Refused { path, errno })?,
            Command::Crash(path) => self.faults.crash(path),
        }
        Ok(())
    }

    /// Does what `jetson_clocks` does (section 8.1).
    fn jetson_clocks(&mut self) {
        let board = self.jetson.board().clone();
        self.jetson.request(|settings| {
            for policy in &mut settings.policies {
                policy.min_khz = policy.max_khz;
            }
            settings.gpu.railgate = false;
            settings.gpu.min_khz = settings.gpu.max_khz;
            settings.emc.locked = true;
            settings.emc.rate_khz = Some(settings.emc_ceiling_khz(&board));
        });
        let files = self.layout.files.iter();
        let idle = files
            .filter(|(path, file)| matches!(file, File::Register(_)) && path.contains("/cpuidle/"));
        let disabled = idle.map(|(path, _)| (path.clone(), "1"));
        self.registers.extend(disabled);
    }
}
