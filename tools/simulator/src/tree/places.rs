//! Paths that depend on the chip and the release of L4T.

/// Where the knobs of the GPU and of nvpmodel's memory ceiling are (sections 5.2, 5.3).
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The GPU's device.
    pub gpu: &'static str,
    /// Its name in devfreq.
    pub gpu_name: &'static str,
    /// Another name of the device.
    pub gpu_alias: Option<&'static str>,
    /// Text of `of_node/name`, by which tools find the GPU.
    pub gpu_node: &'static str,
    pub emc_cap: &'static str,
}

impl Places {
    /// The paths of a chip under a release of L4T.
    pub fn for_soc(soc: &str, release: u32) -> Self {
        let (gpu, gpu_name, gpu_alias, gpu_node) = match (soc, release) {
            ("tegra234", 39..) => (
                "/sys/devices/platform/bus@0/17000000.gpu",
                "17000000.gpu",
                None,
                "gpu",
            ),
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
