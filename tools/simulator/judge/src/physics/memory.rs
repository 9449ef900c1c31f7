//! The memory's clock where a corpus does not state it: the kernel raises it with the clocks of CPU and GPU.

/// The SoC of the Orins.
const ORIN: &str = "tegra234";

/// Lowest CPU clocks in kHz for memory clocks in kHz: `opp-peak-kBps` of the CPU's operating points over the 4 B that a channel moves
/// a cycle, in Linux' `tegra234.dtsi` (036f15c2). The board takes the next memory clock of its table.
const OF_CPU: [[u32; 2]; 4] = [
    [0, 204_000],
    [1_113_600, 408_000],
    [1_497_600, 800_000],
    [2_112_000, 1_600_000],
];

/// Lowest GPU clocks in kHz for memory clocks in kHz. No table is published. On the measured AGX Orin the time of modes that wait for
/// the CPU falls at 408 MHz by 5 to 25 %, whatever the CPU's clock below 1.5 GHz is, and at 1,122 MHz by 2 to 3 %.
const OF_GPU: [[u32; 2]; 3] = [[0, 204_000], [408_000, 2_133_000], [1_122_000, 3_199_000]];

/// The memory clock in kHz that the kernel asks for; `None` if it is not known how the SoC does this.
pub fn asked(soc: &str, cpu_khz: u32, gpu_khz: u32) -> Option<u32> {
    let floor = |floors: &[[u32; 2]], khz: u32| {
        let reached = floors.iter().filter(|[from, _]| *from <= khz);
        reached.map(|[_, memory]| *memory).max().unwrap_or(0)
    };
    (soc == ORIN).then(|| floor(&OF_CPU, cpu_khz).max(floor(&OF_GPU, gpu_khz)))
}
