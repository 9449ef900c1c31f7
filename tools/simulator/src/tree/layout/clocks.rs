//! Files of cores and clocks (`jetson-platform.md`, section 5).

use wattgate_board_tables::{Board, Preset};

use super::super::file::{EmcFile, File, GpuFile, PolicyFile};
use super::super::places::Places;
use super::listing::{Alias, Layout, fixed, ranges, table};

/// Cores, their switches and the clocks of their clusters.
pub fn cpus(layout: &mut Layout, board: &Board) {
    let cpus = "/sys/devices/system/cpu";
    let all: Vec<u32> = (0..board.cores()).collect();
    layout.put(format!("{cpus}/online"), File::Cores(None));
    layout.put(format!("{cpus}/present"), fixed(ranges(&all)));
    layout.put(format!("{cpus}/possible"), fixed(ranges(&all)));
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
            layout.put(format!("{policy}/{name}"), File::Policy(cluster, file));
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
            layout.put(format!("{policy}/{name}"), fixed(text));
        }
        layout.put(
            format!("{policy}/affected_cpus"),
            File::Cores(Some(cluster)),
        );
        for &core in cores {
            let cpu = format!("{cpus}/cpu{core}");
            layout.put(format!("{cpu}/online"), File::Online(core));
            for (state, name) in ["WFI\n", "c7\n"].into_iter().enumerate() {
                let state = format!("{cpu}/cpuidle/state{state}");
                layout.put(format!("{state}/name"), fixed(name));
                layout.put(format!("{state}/disable"), File::Register(&["0", "1"]));
            }
            let alias = Alias {
                target: policy.clone(),
                core: Some(core),
            };
            layout.aliases.insert(format!("{cpu}/cpufreq"), alias);
        }
    }
}

/// The GPU's clock, masks and load.
pub fn gpu(layout: &mut Layout, board: &Board) {
    let Places {
        gpu,
        gpu_name,
        gpu_alias,
        gpu_node,
        ..
    } = Places::for_soc(&board.soc, board.release());
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
        layout.put(format!("{devfreq}/{name}"), file);
    }
    layout.put(
        format!("{gpu}/of_node/name"),
        fixed(format!("{gpu_node}\0")),
    );
    layout.put(format!("{gpu}/load"), File::Gpu(GpuFile::Load));
    layout.put(
        format!("{gpu}/railgate_enable"),
        File::Gpu(GpuFile::Railgate),
    );
    layout.put(
        format!("{gpu}/power/control"),
        File::Gpu(GpuFile::PowerControl),
    );
    let has =
        |mask: fn(&Preset) -> Option<u32>| board.modes.iter().any(|mode| mask(mode).is_some());
    if has(|mode| mode.tpc_pg_mask) {
        layout.put(format!("{gpu}/tpc_pg_mask"), File::Gpu(GpuFile::TpcMask));
    }
    if has(|mode| mode.fbp_pg_mask) {
        layout.put(format!("{gpu}/fbp_pg_mask"), File::Gpu(GpuFile::FbpMask));
    }
    if board.soc == "tegra234" {
        for gpc in 0..2 {
            layout.put(
                format!("/sys/kernel/debug/bpmp/debug/clk/nafll_gpc{gpc}/pto_counter"),
                File::Gpu(GpuFile::True),
            );
        }
    }
    layout.alias(format!("/sys/class/devfreq/{gpu_name}"), devfreq.clone());
    layout.alias(format!("{devfreq}/device"), gpu);
    if board.release() >= 36 {
        layout.alias(format!("{gpu}/devfreq_dev"), devfreq);
    }
    if let Some(alias) = gpu_alias {
        layout.alias(alias, gpu);
    }
}

/// The memory clock and its cap.
pub fn memory(layout: &mut Layout, board: &Board) {
    let clock = "/sys/kernel/debug/bpmp/debug/clk/emc";
    let hertz = |khz: Option<&u32>| table(khz.map(|&khz| 1000 * u64::from(khz)));
    let possible = board.emc_khz.iter().map(|&khz| u64::from(khz));
    let possible = table(possible).trim_end().to_owned() + " (kHz)\n";
    let cap = Places::for_soc(&board.soc, board.release()).emc_cap;
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
    layout.files.extend(files);
}
