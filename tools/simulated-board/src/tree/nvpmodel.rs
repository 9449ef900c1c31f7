//! nvpmodel: its configuration, its status, and what a change of the mode does.
//!
//! Sources: `jetson-platform.md`, sections 3.1 (reboots), 4 (grammar) and 4.1 (status). DLA
//! and PVA are not simulated, and the configuration has no lines for them.

use std::fmt::Write as _;

use thiserror::Error;

use super::Tree;
use super::layout::{Places, release};
use wattgate_board_tables::{Board, Preset};

/// Why the mode stays what it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NvpmodelError {
    /// No mode has this id.
    #[error("unknown mode {id}; there are {}", known.join(", "))]
    UnknownMode { id: u32, known: Vec<String> },
    /// The masks differ, and standard input is closed: the prompt gets no answer.
    #[error("Reboot required for changing to this power mode: {id}; NVPM ERROR: bad input!")]
    RebootRequired { id: u32 },
}

/// The mode of a board with this id, or with none the boot default.
pub fn mode(board: &Board, id: Option<u32>) -> Result<&Preset, NvpmodelError> {
    let wanted = |mode: &&Preset| match id {
        Some(id) => mode.id == id,
        None => mode.default,
    };
    let found = board.modes.iter().find(wanted);
    let found = found.or_else(|| board.modes.first().filter(|_| id.is_none()));
    found.ok_or_else(|| NvpmodelError::UnknownMode {
        id: id.unwrap_or(0),
        known: board
            .modes
            .iter()
            .map(|mode| format!("{} {}", mode.id, mode.name))
            .collect(),
    })
}

impl Tree {
    /// `nvpmodel -m <id>` with closed standard input: equal masks apply live, others need a
    /// reboot that nobody confirms, and the old mode stays (section 3.1).
    pub fn nvpmodel(&mut self, id: u32) -> Result<(), NvpmodelError> {
        let board = self.jetson.board();
        let wanted = mode(board, Some(id))?.clone();
        let running = mode(board, Some(self.mode))?;
        let masks = |mode: &Preset| (mode.tpc_pg_mask, mode.fbp_pg_mask);
        if masks(&wanted) != masks(running) {
            return Err(NvpmodelError::RebootRequired { id });
        }
        let board = board.clone();
        self.jetson
            .request(|settings| settings.enter(&board, &wanted));
        (self.mode, self.status) = (id, id);
        Ok(())
    }

    /// The same from within a container: success is reported and only the status file is
    /// written (section 4.1).
    pub fn nvpmodel_in_container(&mut self, id: u32) -> Result<(), NvpmodelError> {
        mode(self.jetson.board(), Some(id))?;
        self.status = id;
        Ok(())
    }

    /// `nvpmodel.service` runs again: the mode of the status file is set once more, and what
    /// others did to minima and maxima is lost (section 0, fact 9).
    pub fn nvpmodel_service(&mut self) -> Result<(), NvpmodelError> {
        self.nvpmodel(self.status)
    }

    /// The id of the mode that was set last.
    pub fn mode(&self) -> u32 {
        self.mode
    }
}

/// The text of `/etc/nvpmodel.conf` (section 4).
pub fn conf(board: &Board) -> String {
    Conf {
        board,
        names: cluster_names(board),
        new_kernel: release(board) >= 36,
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
    /// Paths of the newer kernel stand beside those of the older one.
    new_kernel: bool,
}

impl Conf<'_> {
    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text.push_str("# nvpmodel.conf of a simulated board\n\n");
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
        let gpu = Places::of(&self.board.soc, release(self.board)).gpu;
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
        let devfreq = |release| {
            let places = Places::of(&self.board.soc, release);
            format!("{}/devfreq/{}", places.gpu, places.gpu_name)
        };
        let files = ["available_frequencies", "max_freq", "min_freq"];
        let (old, new) = (devfreq(35), devfreq(36));
        self.clock(text, "GPU", &self.kernels([&old, &new]), &files)?;
        writeln!(text, "\n< PARAM TYPE=CLOCK NAME=EMC >")?;
        let caps = [35, 36].map(|release| Places::of(&self.board.soc, release).emc_cap);
        for (cap, suffix) in self.kernels(caps).iter().zip(["", "_KNEXT"]) {
            writeln!(text, "MAX_FREQ{suffix} {cap}")?;
        }
        text.push('\n');
        Ok(())
    }

    /// The places under the older kernel and, where the board has it, under the newer one.
    fn kernels<'b>(&self, places: [&'b str; 2]) -> Vec<&'b str> {
        places[..1 + usize::from(self.new_kernel)].to_vec()
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
            None if !self.new_kernel => 0,
            khz => cap(khz, 1000),
        };
        writeln!(text, "EMC MAX_FREQ {emc}\n")
    }
}
