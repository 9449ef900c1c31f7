//! Which files a board has, by its chip and its release of L4T.
//!
//! Sources: `jetson-platform.md`, sections 5 (clocks), 6 (power), 7 (heat, fan), 9 (identity).

use std::collections::{BTreeMap, BTreeSet};

use super::nvpmodel;
use wattgate_board_tables::Board;

/// What a file stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// Text that never changes.
    Fixed(String),
    /// It holds one of some words, the first one at start, and has no effect.
    Register(&'static [&'static str]),
    /// `online` of a core.
    Online(u32),
    /// The list of online cores, of all cores or of one cluster.
    Cores(Option<usize>),
    /// A file of a cluster's cpufreq policy.
    Policy(usize, PolicyFile),
    Gpu(GpuFile),
    Emc(EmcFile),
    /// A file of a rail, by its place in [`Board::rails`].
    Rail(usize, RailFile),
    /// A file of a power sensor's chip, by its number in [`Board::chip_of`].
    Chip(usize, ChipFile),
    /// Sums over these rails.
    Sum(Vec<usize>, SumFile),
    /// Events of the over-current protection, 0 for OC1.
    Events(usize),
    Temperature,
    /// The temperature of something without power.
    Unpowered,
    FanPwm,
    FanRpm,
    /// nvpmodel's status.
    Status,
}

/// Files of a cpufreq policy that change, in kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFile {
    Min,
    Max,
    Requested,
    True,
    Governor,
    Setspeed,
}

/// Files of the GPU that change, in Hz where they are clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuFile {
    Min,
    Max,
    Requested,
    True,
    Governor,
    Railgate,
    PowerControl,
    TpcMask,
    FbpMask,
    Load,
}

/// Files of the memory clock that change, in Hz where they are clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmcFile {
    Rate,
    Locked,
    /// The ceiling of nvpmodel; 0 for none up to R35, the highest clock on R36 (assumed).
    Cap,
}

/// Files of a channel of a power sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailFile {
    Label,
    Millivolts,
    Milliamperes,
    Milliwatts,
    ShuntMicrovolts,
    /// In µΩ.
    Shunt,
    Warn,
    Crit,
    WarnAlarm,
    CritAlarm,
}

impl RailFile {
    /// How many measured values of the sensor a read of it fetches.
    pub fn registers(self) -> u32 {
        match self {
            Self::Millivolts | Self::Milliamperes | Self::ShuntMicrovolts => 1,
            Self::Milliwatts => 2,
            _ => 0,
        }
    }
}

/// Files of a whole power sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipFile {
    /// The number of samples that the registers average over.
    Samples,
    /// Their time constant in ms.
    Interval,
}

/// Files of a sensor's sum of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumFile {
    Milliamperes,
    ShuntMicrovolts,
    CritAlarm,
}

/// A directory that is another name of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The other directory.
    pub target: String,
    /// It leads nowhere while this core is offline.
    pub core: Option<u32>,
}

/// All files of a board.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// By absolute path.
    pub files: BTreeMap<String, File>,
    /// Directories by absolute path.
    pub aliases: BTreeMap<String, Alias>,
    /// The lengths of their paths, so that few prefixes of a path have to be looked up.
    pub alias_lengths: BTreeSet<usize>,
}

/// Where the knobs of the GPU and of nvpmodel's memory ceiling are (sections 5.2, 5.3).
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The GPU's device.
    pub gpu: &'static str,
    /// Its name in devfreq.
    pub gpu_name: &'static str,
    /// Another name of the device.
    pub gpu_alias: Option<&'static str>,
    /// What tools look for in `of_node/name`.
    pub gpu_node: &'static str,
    pub emc_cap: &'static str,
}

/// The release of L4T, such as 35; that of JetPack 5 where none is given.
pub fn release(board: &Board) -> u32 {
    board.l4t.as_ref().map_or(35, |(release, _)| *release)
}

impl Places {
    /// Those of a chip under a release of L4T.
    pub fn of(soc: &str, release: u32) -> Self {
        let (gpu, gpu_name, gpu_alias, gpu_node) = match (soc, release) {
            ("tegra234", 36..) => (
                "/sys/devices/platform/17000000.gpu",
                "17000000.gpu",
                Some("/sys/devices/platform/gpu.0"),
                "gpu",
            ),
            ("tegra234", _) => (
                "/sys/devices/17000000.ga10b",
                "17000000.ga10b",
                Some("/sys/devices/gpu.0"),
                "ga10b",
            ),
            ("tegra194", _) => (
                "/sys/devices/17000000.gv11b",
                "17000000.gv11b",
                None,
                "gv11b",
            ),
            _ => (
                "/sys/devices/17000000.gp10b",
                "17000000.gp10b",
                None,
                "gp10b",
            ),
        };
        let emc_cap = if release >= 36 {
            "/sys/kernel/nvpmodel_clk_cap/emc"
        } else {
            "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
        };
        Self {
            gpu,
            gpu_name,
            gpu_alias,
            gpu_node,
            emc_cap,
        }
    }
}

/// A list of numbers as the kernel prints tables.
fn table(values: impl IntoIterator<Item = u64>) -> String {
    let words: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    words.join(" ") + "\n"
}

/// Cores as the kernel prints them, such as `0-3,5`.
pub fn ranges(cores: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let words = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",") + "\n"
}

impl Layout {
    /// The files of a board whose first hwmon or iio device has this number.
    pub fn of(board: &Board, first_number: usize) -> Self {
        let mut layout = Self::default();
        layout.identity(board);
        layout.cpus(board);
        layout.gpu(board);
        layout.memory(board);
        layout.thermal(board);
        let number = layout.power(board, first_number);
        layout.fan(board, number);
        layout.put("/etc/nvpmodel.conf", fixed(nvpmodel::conf(board)));
        layout.put("/var/lib/nvpmodel/status", File::Status);
        layout.alias_lengths = layout.aliases.keys().map(String::len).collect();
        layout
    }

    fn put(&mut self, path: impl Into<String>, file: File) {
        self.files.insert(path.into(), file);
    }

    fn alias(&mut self, path: impl Into<String>, target: impl Into<String>) {
        let target = target.into();
        self.aliases
            .insert(path.into(), Alias { target, core: None });
    }

    fn identity(&mut self, board: &Board) {
        let tree = "/proc/device-tree";
        self.put(format!("{tree}/model"), fixed(board.model.clone() + "\0"));
        let compatible: String = board
            .compatible
            .iter()
            .map(|it| format!("{it}\0"))
            .collect();
        self.put(format!("{tree}/compatible"), fixed(compatible));
        self.alias("/sys/firmware/devicetree/base", tree);
        if let Some((release, revision)) = &board.l4t {
            let text = format!(
                "# R{release} (release), REVISION: {revision}, GCID: 0, BOARD: simulated, EABI: aarch64, DATE: simulated\n"
            );
            self.put("/etc/nv_tegra_release", fixed(text));
        }
    }

    fn cpus(&mut self, board: &Board) {
        let cpus = "/sys/devices/system/cpu";
        let all: Vec<u32> = (0..board.cores()).collect();
        self.put(format!("{cpus}/online"), File::Cores(None));
        self.put(format!("{cpus}/present"), fixed(ranges(&all)));
        self.put(format!("{cpus}/possible"), fixed(ranges(&all)));
        let frequencies = || board.cpu_khz.iter().map(|&khz| u64::from(khz));
        for (cluster, cores) in board.clusters.iter().enumerate() {
            let policy = format!("{cpus}/cpufreq/policy{}", cores[0]);
            let changing = [
                ("scaling_min_freq", PolicyFile::Min),
                ("scaling_max_freq", PolicyFile::Max),
                ("scaling_cur_freq", PolicyFile::Requested),
                ("cpuinfo_cur_freq", PolicyFile::True),
                ("scaling_governor", PolicyFile::Governor),
                ("scaling_setspeed", PolicyFile::Setspeed),
            ];
            for (name, file) in changing {
                self.put(format!("{policy}/{name}"), File::Policy(cluster, file));
            }
            let related: Vec<String> = cores.iter().map(u32::to_string).collect();
            let fixed_ones = [
                ("scaling_available_frequencies", table(frequencies())),
                ("cpuinfo_min_freq", table(frequencies().take(1))),
                ("cpuinfo_max_freq", table(frequencies().next_back())),
                (
                    "scaling_available_governors",
                    "performance schedutil userspace\n".to_owned(),
                ),
                ("related_cpus", related.join(" ") + "\n"),
            ];
            for (name, text) in fixed_ones {
                self.put(format!("{policy}/{name}"), fixed(text));
            }
            self.put(
                format!("{policy}/affected_cpus"),
                File::Cores(Some(cluster)),
            );
            for &core in cores {
                let cpu = format!("{cpus}/cpu{core}");
                self.put(format!("{cpu}/online"), File::Online(core));
                for (state, name) in ["WFI\n", "c7\n"].into_iter().enumerate() {
                    let state = format!("{cpu}/cpuidle/state{state}");
                    self.put(format!("{state}/name"), fixed(name));
                    self.put(format!("{state}/disable"), File::Register(&["0", "1"]));
                }
                let alias = Alias {
                    target: policy.clone(),
                    core: Some(core),
                };
                self.aliases.insert(format!("{cpu}/cpufreq"), alias);
            }
        }
    }

    fn gpu(&mut self, board: &Board) {
        let Places {
            gpu,
            gpu_name,
            gpu_alias,
            gpu_node,
            ..
        } = Places::of(&board.soc, release(board));
        let devfreq = format!("{gpu}/devfreq/{gpu_name}");
        let hertz = board.gpu_khz.iter().map(|&khz| 1000 * u64::from(khz));
        let files = [
            ("min_freq", File::Gpu(GpuFile::Min)),
            ("max_freq", File::Gpu(GpuFile::Max)),
            ("cur_freq", File::Gpu(GpuFile::Requested)),
            ("governor", File::Gpu(GpuFile::Governor)),
            ("available_frequencies", fixed(table(hertz))),
            ("available_governors", fixed("nvhost_podgov performance\n")),
        ];
        for (name, file) in files {
            self.put(format!("{devfreq}/{name}"), file);
        }
        self.put(
            format!("{gpu}/of_node/name"),
            fixed(format!("{gpu_node}\0")),
        );
        self.put(format!("{gpu}/load"), File::Gpu(GpuFile::Load));
        self.put(
            format!("{gpu}/railgate_enable"),
            File::Gpu(GpuFile::Railgate),
        );
        self.put(
            format!("{gpu}/power/control"),
            File::Gpu(GpuFile::PowerControl),
        );
        let has = |mask: fn(&wattgate_board_tables::Preset) -> Option<u32>| {
            board.modes.iter().any(|mode| mask(mode).is_some())
        };
        if has(|mode| mode.tpc_pg_mask) {
            self.put(format!("{gpu}/tpc_pg_mask"), File::Gpu(GpuFile::TpcMask));
        }
        if has(|mode| mode.fbp_pg_mask) {
            self.put(format!("{gpu}/fbp_pg_mask"), File::Gpu(GpuFile::FbpMask));
        }
        if board.soc == "tegra234" {
            for gpc in 0..2 {
                self.put(
                    format!("/sys/kernel/debug/bpmp/debug/clk/nafll_gpc{gpc}/pto_counter"),
                    File::Gpu(GpuFile::True),
                );
            }
        }
        self.alias(format!("/sys/class/devfreq/{gpu_name}"), devfreq.clone());
        self.alias(format!("{devfreq}/device"), gpu);
        if release(board) >= 36 {
            self.alias(format!("{gpu}/devfreq_dev"), devfreq);
        }
        if let Some(alias) = gpu_alias {
            self.alias(alias, gpu);
        }
    }

    fn memory(&mut self, board: &Board) {
        let clock = "/sys/kernel/debug/bpmp/debug/clk/emc";
        let hertz = |khz: Option<&u32>| table(khz.map(|&khz| 1000 * u64::from(khz)));
        let possible = board.emc_khz.iter().map(|&khz| u64::from(khz));
        let possible = table(possible).trim_end().to_owned() + " (kHz)\n";
        let cap = Places::of(&board.soc, release(board)).emc_cap;
        let files = [
            (format!("{clock}/rate"), File::Emc(EmcFile::Rate)),
            (
                format!("{clock}/mrq_rate_locked"),
                File::Emc(EmcFile::Locked),
            ),
            (format!("{clock}/state"), File::Register(&["1", "0"])),
            (
                format!("{clock}/min_rate"),
                fixed(hertz(board.emc_khz.first())),
            ),
            (
                format!("{clock}/max_rate"),
                fixed(hertz(board.emc_khz.last())),
            ),
            (
                "/sys/kernel/debug/bpmp/debug/emc/possible_rates".to_owned(),
                fixed(possible),
            ),
            (cap.to_owned(), File::Emc(EmcFile::Cap)),
        ];
        self.files.extend(files);
    }

    fn thermal(&mut self, board: &Board) {
        let suffix = |names: &[&str], suffix| -> Vec<String> {
            names.iter().map(|name| format!("{name}{suffix}")).collect()
        };
        let zones = match (board.soc.as_str(), release(board)) {
            ("tegra234", 36..) => suffix(
                &[
                    "cpu", "gpu", "cv0", "cv1", "cv2", "soc0", "soc1", "soc2", "tj",
                ],
                "-thermal",
            ),
            ("tegra234", _) => suffix(
                &[
                    "CPU", "GPU", "CV0", "CV1", "CV2", "SOC0", "SOC1", "SOC2", "tj",
                ],
                "-therm",
            ),
            ("tegra194", _) => suffix(&["CPU", "GPU", "AUX"], "-therm"),
            _ => [
                "BCPU",
                "MCPU",
                "GPU",
                "PLL",
                "AO",
                "Tboard_tegra",
                "Tdiode_tegra",
                "PMIC-Die",
                "thermal-fan-est",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        for (at, name) in zones.into_iter().enumerate() {
            let zone = format!("/sys/class/thermal/thermal_zone{at}");
            let temperature = if name.to_lowercase().starts_with("cv") {
                File::Unpowered
            } else {
                File::Temperature
            };
            self.put(format!("{zone}/temp"), temperature);
            self.put(format!("{zone}/type"), fixed(name + "\n"));
        }
    }

    /// Puts a hwmon device and gives its directory.
    fn hwmon(&mut self, device: &str, number: usize, name: &str) -> String {
        let directory = format!("{device}/hwmon/hwmon{number}");
        self.put(format!("{directory}/name"), fixed(format!("{name}\n")));
        self.alias(
            format!("/sys/class/hwmon/hwmon{number}"),
            directory.as_str(),
        );
        directory
    }

    /// The power sensors, numbered from `number`; gives the next number.
    fn power(&mut self, board: &Board, mut number: usize) -> usize {
        let mut chips: Vec<&str> = board.rails.iter().map(|rail| rail.chip.as_str()).collect();
        chips.dedup();
        for (at, chip) in chips.into_iter().enumerate() {
            if release(board) >= 35 {
                let device = format!("/sys/bus/i2c/drivers/ina3221/{chip}");
                let hwmon = self.hwmon(&device, number, "ina3221");
                self.hwmon_channels(board, chip, &hwmon);
                let samples = File::Chip(at, ChipFile::Samples);
                self.put(format!("{hwmon}/samples"), samples);
                let interval = File::Chip(at, ChipFile::Interval);
                self.put(format!("{hwmon}/update_interval"), interval);
            } else {
                let device = format!("/sys/bus/i2c/drivers/ina3221x/{chip}/iio:device{number}");
                self.iio_channels(board, chip, &device);
            }
            number += 1;
        }
        number
    }

    fn hwmon_channels(&mut self, board: &Board, chip: &str, hwmon: &str) {
        let mut summed = Vec::new();
        for channel in 1..=3 {
            let of =
                |rail: &wattgate_board_tables::Rail| rail.chip == chip && rail.channel == channel;
            let Some(rail) = board.rails.iter().position(of) else {
                self.put(format!("{hwmon}/in{channel}_label"), fixed("NC\n"));
                self.put(format!("{hwmon}/in{channel}_input"), fixed("0\n"));
                self.put(format!("{hwmon}/curr{channel}_input"), fixed("0\n"));
                continue;
            };
            if board.rails[rail].label != crate::machine::NOT_SUMMED {
                summed.push(rail);
            }
            let files = [
                (format!("in{channel}_label"), RailFile::Label),
                (format!("in{channel}_input"), RailFile::Millivolts),
                (
                    format!("in{}_input", channel + 3),
                    RailFile::ShuntMicrovolts,
                ),
                (format!("curr{channel}_input"), RailFile::Milliamperes),
                (format!("shunt{channel}_resistor"), RailFile::Shunt),
                (format!("curr{channel}_max"), RailFile::Warn),
                (format!("curr{channel}_crit"), RailFile::Crit),
                (format!("curr{channel}_max_alarm"), RailFile::WarnAlarm),
                (format!("curr{channel}_crit_alarm"), RailFile::CritAlarm),
            ];
            for (name, file) in files {
                self.put(format!("{hwmon}/{name}"), File::Rail(rail, file));
            }
        }
        let label = fixed("sum of shunt voltages\n");
        self.put(format!("{hwmon}/in7_label"), label);
        let sums = [
            ("in7_input", SumFile::ShuntMicrovolts),
            ("curr4_input", SumFile::Milliamperes),
            ("curr4_crit_alarm", SumFile::CritAlarm),
        ];
        for (name, file) in sums {
            self.put(format!("{hwmon}/{name}"), File::Sum(summed.clone(), file));
        }
        let limited = board.rails.first().is_some_and(|rail| rail.chip == chip);
        if let Some(limit) = board.over_current.sum_crit_ma.filter(|_| limited) {
            self.put(format!("{hwmon}/curr4_crit"), fixed(format!("{limit}\n")));
        }
    }

    fn iio_channels(&mut self, board: &Board, chip: &str, device: &str) {
        self.put(format!("{device}/name"), fixed("ina3221x\n"));
        for (rail, of) in board.rails.iter().enumerate() {
            if of.chip != chip {
                continue;
            }
            let channel = of.channel - 1;
            let files = [
                (format!("rail_name_{channel}"), RailFile::Label),
                (format!("in_voltage{channel}_input"), RailFile::Millivolts),
                (format!("in_current{channel}_input"), RailFile::Milliamperes),
                (format!("in_power{channel}_input"), RailFile::Milliwatts),
                (format!("warn_current_limit_{channel}"), RailFile::Warn),
                (format!("crit_current_limit_{channel}"), RailFile::Crit),
            ];
            for (name, file) in files {
                self.put(format!("{device}/{name}"), File::Rail(rail, file));
            }
        }
    }

    /// Fan, its speed and the counters of the over-current protection.
    fn fan(&mut self, board: &Board, number: usize) {
        if release(board) < 35 {
            self.put("/sys/devices/pwm-fan/target_pwm", File::FanPwm);
            return;
        }
        let fan = self.hwmon("/sys/devices/platform/pwm-fan", number, "pwmfan");
        self.put(format!("{fan}/pwm1"), File::FanPwm);
        let tach = "/sys/devices/platform/39c0000.tachometer";
        let tach = self.hwmon(tach, number + 1, "pwm_tach");
        self.put(format!("{tach}/rpm"), File::FanRpm);
        if board.soc == "tegra234" {
            let device = "/sys/devices/platform/soctherm-oc-event";
            let counters = self.hwmon(device, number + 2, "soctherm_oc");
            for event in 0..3 {
                let name = format!("{counters}/oc{}", event + 1);
                self.put(format!("{name}_event_cnt"), File::Events(event));
                self.put(format!("{name}_throt_en"), fixed("1\n"));
            }
        }
    }
}

fn fixed(text: impl Into<String>) -> File {
    File::Fixed(text.into())
}
