//! nvpmodel's configuration, `/etc/nvpmodel.conf` (`jetson-platform.md`, section 4). DLA and PVA
//! are not simulated, and the configuration has no lines for them.

use std::fmt::Write as _;

use wattgate_board_tables::{Board, Preset};

use super::places::Places;
use super::preset::mode;

/// The text of `/etc/nvpmodel.conf` (section 4).
pub fn conf(board: &Board) -> String {
    Conf {
        board,
        names: cluster_names(board),
        has_newer_linux: board.release() >= 36,
    }
    .text()
    .expect("a String takes all text")
}

/// The names of the clusters' clocks.
fn cluster_names(board: &Board) -> Vec<String> {
    let numbered = |name: &str| {
        (0..board.clusters.len())
            .map(|cluster| format!("{name}_{cluster}"))
            .collect()
    };
    match board.soc.as_str() {
        "tegra234" => numbered("CPU_A78"),
        "tegra194" => numbered("CPU_DENVER"),
        _ => vec!["CPU_A57".to_owned(), "CPU_DENVER".to_owned()],
    }
}

struct Conf<'a> {
    board: &'a Board,
    names: Vec<String>,
    /// Whether paths of the newer Linux kernel are listed beside those of the older one.
    has_newer_linux: bool,
}

impl Conf<'_> {
    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let figures = self.board.figures();
        writeln!(text, "# nvpmodel.conf of a {figures} board\n")?;
        self.files(&mut text)?;
        self.clocks(&mut text)?;
        for mode in &self.board.modes {
            self.mode(&mut text, mode)?;
        }
        let default = mode(self.board, None).map_or(0, |mode| mode.id);
        writeln!(text, "< PM_CONFIG DEFAULT={default} >")?;
        Ok(text)
    }

    fn files(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "< PARAM TYPE=FILE NAME=CPU_ONLINE >")?;
        for core in 0..self.board.cores() {
            writeln!(text, "CORE_{core} /sys/devices/system/cpu/cpu{core}/online")?;
        }
        let gpu = Places::for_soc(&self.board.soc, self.board.release()).gpu;
        let modes = &self.board.modes;
        let files = [
            (
                "TPC_POWER_GATING",
                "TPC_PG_MASK",
                "tpc_pg_mask",
                modes.iter().any(|mode| mode.tpc_pg_mask.is_some()),
            ),
            (
                "FBP_POWER_GATING",
                "FBP_PG_MASK",
                "fbp_pg_mask",
                modes.iter().any(|mode| mode.fbp_pg_mask.is_some()),
            ),
            (
                "GPU_POWER_CONTROL_ENABLE",
                "GPU_PWR_CNTL_EN",
                "power/control",
                true,
            ),
            (
                "GPU_POWER_CONTROL_DISABLE",
                "GPU_PWR_CNTL_DIS",
                "power/control",
                true,
            ),
        ];
        for (name, argument, file, _) in files.iter().filter(|(.., there)| *there) {
            writeln!(text, "\n< PARAM TYPE=FILE NAME={name} >")?;
            writeln!(text, "{argument} {gpu}/{file}")?;
        }
        Ok(())
    }

    fn clocks(&self, text: &mut String) -> std::fmt::Result {
        for (name, cores) in self.names.iter().zip(&self.board.clusters) {
            let cpufreq = format!("/sys/devices/system/cpu/cpu{}/cpufreq", cores[0]);
            let files = [
                "scaling_available_frequencies",
                "scaling_max_freq",
                "scaling_min_freq",
            ];
            self.clock(text, name, &[&cpufreq], &files)?;
        }
        let release = self.board.release().max(36);
        let devfreq = |release| {
            let places = Places::for_soc(&self.board.soc, release);
            format!("{}/devfreq/{}", places.gpu, places.gpu_name)
        };
        let files = ["available_frequencies", "max_freq", "min_freq"];
        let (old, new) = (devfreq(35), devfreq(release));
        self.clock(text, "GPU", &self.under_each_linux([&old, &new]), &files)?;
        writeln!(text, "\n< PARAM TYPE=CLOCK NAME=EMC >")?;
        let caps = [35, release].map(|release| Places::for_soc(&self.board.soc, release).emc_cap);
        for (cap, suffix) in self.under_each_linux(caps).iter().zip(["", "_KNEXT"]) {
            writeln!(text, "MAX_FREQ{suffix} {cap}")?;
        }
        text.push('\n');
        Ok(())
    }

    /// The places under the older Linux kernel and, where the board has it, under the newer one.
    fn under_each_linux<'b>(&self, places: [&'b str; 2]) -> Vec<&'b str> {
        places[..1 + usize::from(self.has_newer_linux)].to_vec()
    }

    fn clock(
        &self,
        text: &mut String,
        name: &str,
        directories: &[&str],
        files: &[&str; 3],
    ) -> std::fmt::Result {
        writeln!(text, "\n< PARAM TYPE=CLOCK NAME={name} >")?;
        for (directory, suffix) in directories.iter().zip(["", "_KNEXT"]) {
            let arguments = ["FREQ_TABLE", "MAX_FREQ", "MIN_FREQ"];
            for (argument, file) in arguments.iter().zip(files) {
                writeln!(text, "{argument}{suffix} {directory}/{file}")?;
            }
        }
        Ok(())
    }

    fn mode(&self, text: &mut String, mode: &Preset) -> std::fmt::Result {
        writeln!(text, "< POWER_MODEL ID={} NAME={} >", mode.id, mode.name)?;
        for core in 0..self.board.cores() {
            let online = u32::from(mode.cores.contains(&core));
            writeln!(text, "CPU_ONLINE CORE_{core} {online}")?;
        }
        if let Some(mask) = mode.fbp_pg_mask {
            writeln!(text, "FBP_POWER_GATING FBP_PG_MASK {mask}")?;
        }
        if let Some(mask) = mode.tpc_pg_mask {
            writeln!(text, "TPC_POWER_GATING TPC_PG_MASK {mask}")?;
        }
        writeln!(text, "GPU_POWER_CONTROL_ENABLE GPU_PWR_CNTL_EN on")?;
        let cap = |khz: Option<u32>, unit: i64| khz.map_or(-1, |khz| unit * i64::from(khz));
        for (name, cores) in self.names.iter().zip(&self.board.clusters) {
            if cores.iter().any(|core| mode.cores.contains(core)) {
                writeln!(text, "{name} MIN_FREQ {}", mode.cpu_min_khz.unwrap_or(0))?;
                writeln!(text, "{name} MAX_FREQ {}", cap(mode.cpu_khz, 1))?;
            }
        }
        writeln!(text, "GPU MIN_FREQ 0")?;
        writeln!(text, "GPU MAX_FREQ {}", cap(mode.gpu_khz, 1000))?;
        writeln!(text, "GPU_POWER_CONTROL_DISABLE GPU_PWR_CNTL_DIS auto")?;
        // Up to R35 stock files have 0 for "no cap", R36 has -1.
        let emc = match mode.emc_khz {
            None if !self.has_newer_linux => 0,
            khz => cap(khz, 1000),
        };
        writeln!(text, "EMC MAX_FREQ {emc}\n")
    }
}
