//! Files of temperatures, the fan and the over-current counters (`jetson-platform.md`, sections 6.4
//! and 7).

use wattgate_board_tables::Board;

use super::super::file::{CooledPart, File};
use super::super::places::Places;
use super::listing::{Layout, fixed};

/// The thermal zones.
pub fn thermal(layout: &mut Layout, board: &Board) {
    let suffix = |names: &[&str], suffix| -> Vec<String> {
        names.iter().map(|name| format!("{name}{suffix}")).collect()
    };
    let zones = match (board.soc.as_str(), board.release()) {
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
        layout.put(format!("{zone}/temp"), temperature);
        layout.put(format!("{zone}/type"), fixed(name + "\n"));
    }
}

/// Linux's cooling devices: one for each cluster, and one for the GPU. Linux 5.12 renamed
/// their types.
pub fn cooling(layout: &mut Layout, board: &Board) {
    let release = board.release();
    let gpu = Places::for_soc(&board.soc, release).gpu_name;
    let clusters = board.clusters.iter().filter_map(|cores| cores.first());
    let mut types: Vec<String> = match release {
        36.. => clusters.map(|core| format!("cpufreq-cpu{core}")).collect(),
        _ => (0..board.clusters.len())
            .map(|at| format!("thermal-cpufreq-{at}"))
            .collect(),
    };
    types.push(match release {
        36.. => format!("devfreq-{gpu}"),
        _ => "thermal-devfreq-0".to_owned(),
    });
    for (at, name) in types.into_iter().enumerate() {
        let (part, table) = match at < board.clusters.len() {
            true => (CooledPart::Cpu, &board.cpu_khz),
            false => (CooledPart::Gpu, &board.gpu_khz),
        };
        let device = format!("/sys/class/thermal/cooling_device{at}");
        layout.put(format!("{device}/type"), fixed(name + "\n"));
        layout.put(format!("{device}/cur_state"), File::Cooling(part));
        let most = format!("{}\n", table.len() - 1);
        layout.put(format!("{device}/max_state"), fixed(most));
    }
}

/// The fan, its speed and the counters of the over-current protection; hwmon devices are numbered
/// from `number`.
pub fn fan(layout: &mut Layout, board: &Board, number: usize) {
    if board.release() < 35 {
        layout.put("/sys/devices/pwm-fan/target_pwm", File::FanPwm);
        return;
    }
    let fan = layout.hwmon("/sys/devices/platform/pwm-fan", number, "pwmfan");
    layout.put(format!("{fan}/pwm1"), File::FanPwm);
    let tach = "/sys/devices/platform/39c0000.tachometer";
    let tach = layout.hwmon(tach, number + 1, "pwm_tach");
    layout.put(format!("{tach}/rpm"), File::FanRpm);
    if board.soc == "tegra234" {
        let device = "/sys/devices/platform/soctherm-oc-event";
        let counters = layout.hwmon(device, number + 2, "soctherm_oc");
        for event in 0..3 {
            let name = format!("{counters}/oc{}", event + 1);
            layout.put(format!("{name}_event_cnt"), File::Events(event));
            layout.put(format!("{name}_throt_en"), fixed("1\n"));
        }
    }
}
