//! Settings of nvpmodel: the masks, which need a reboot and are only read, and the id of its mode
//! (`jetson-platform.md`, sections 3.1 and 4.1).

use std::fmt;
use std::path::PathBuf;

use crate::cpu::Cpus;
use crate::files::{Files, Knob};
use crate::gpu::Gpu;
use crate::presets::{Preset, presets};
use crate::search::Search;

const STATUS: &str = "/var/lib/nvpmodel/status";
const CONF: &str = "/etc/nvpmodel.conf";

/// Where JetPack 7 keeps the mask of Thor's GPU, as `gpu_pg_mask_param=512`, which the driver takes at the next boot.
const STATIC_MASK: &str = "/opt/nvidia/l4t-gpusetup/gpu_pg_mask";

/// The mask of a fresh installation, which gates nothing that the GPU has.
const NO_MASK: u32 = u32::MAX;

/// Maximum length of the configuration in bytes. NVIDIA's have up to 20 KiB.
const LONGEST_CONF: usize = 256 * 1024;

/// The masks that gate parts of the GPU; `None` on boards without the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// A set bit gates a TPC.
    pub tpc: Option<i64>,
    /// A set bit gates an FBP.
    pub fbp: Option<i64>,
}

/// A part of the GPU that another mode of nvpmodel and a reboot give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gated {
    /// The number of TPCs.
    pub tpcs: u32,
    /// The mode's id and name.
    pub mode: (u32, String),
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, name) = &self.mode;
        match self.tpcs {
            1 => f.write_str("1 TPC of the GPU is off")?,
            tpcs => write!(f, "{tpcs} TPCs of the GPU are off")?,
        }
        write!(
            f,
            "; `nvpmodel -m {id}` ({name}) and a reboot turn them on: with more of them at a lower clock, a GPU does \
             the same for less power"
        )
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Nvpmodel {
    tpc: Option<Knob>,
    fbp: Option<Knob>,
    /// The mask of gated TPCs; it needs a reboot to change.
    pub(crate) tpc_pg_mask: Option<u32>,
    status: PathBuf,
    /// The modes of its configuration; none if it cannot be read.
    pub(crate) presets: Vec<Preset>,
}

impl Nvpmodel {
    pub(crate) fn find<F: Files>(search: &mut Search<F>, cpus: &Cpus, gpu: Option<&Gpu>) -> Self {
        // Boards up to TX2 have no masks, so an absent mask is not reported as missing.
        let mask = |name: &str| {
            let knob = Knob(gpu?.device.join(name).into());
            knob.read(search.files).is_ok().then_some(knob)
        };
        let (tpc, fbp) = (mask("tpc_pg_mask"), mask("fbp_pg_mask"));
        let gated: Option<i64> = tpc.as_ref().and_then(|knob| knob.read(search.files).ok());
        let gated = gated.and_then(|mask| mask.try_into().ok());
        let gated = gated.or_else(|| static_mask(search));
        let status = search.path(STATUS);
        if let Err(why) = search.text(&status) {
            search.miss("status of nvpmodel", status.clone(), why.kind());
        }
        let conf = search.path(CONF);
        let mut buffer = vec![0; LONGEST_CONF];
        let conf = search.files.read(&conf, &mut buffer).unwrap_or_default();
        Self {
            tpc,
            fbp,
            tpc_pg_mask: gated,
            status,
            presets: presets(conf, |core| cpus.cluster(core)),
        }
    }

    pub(crate) fn masks(&self, files: &impl Files) -> Masks {
        let read = |knob: &Option<Knob>| knob.as_ref()?.read(files).ok();
        Masks {
            tpc: read(&self.tpc),
            fbp: read(&self.fbp),
        }
    }

    /// What is gated off and can be turned on; `None` if nothing can, or if the board does not tell.
    pub(crate) fn gated(&self) -> Option<Gated> {
        let mask = self.tpc_pg_mask?;
        let more = |preset: &&Preset| {
            let tpcs = preset.tpc_pg_mask.map_or(0, |other| mask & !other);
            tpcs.count_ones()
        };
        // Of those that turn on as many, the first.
        let presets = self.presets.iter().rev();
        let preset = presets.max_by_key(more)?;
        let tpcs = more(&preset);
        (tpcs > 0).then(|| Gated {
            tpcs,
            mode: (preset.id, preset.name.clone()),
        })
    }

    pub(crate) fn mode(&self, files: &impl Files) -> Option<u32> {
        let mut buffer = [0; 128];
        let text = files.read(&self.status, &mut buffer).ok()?;
        let mut words = text.split_whitespace();
        words.find_map(|word| word.strip_prefix("pmode:")?.parse().ok())
    }
}

/// The mask of JetPack 7, if nvpmodel has set one.
fn static_mask<F: Files>(search: &mut Search<F>) -> Option<u32> {
    let path = search.path(STATIC_MASK);
    let text = search.text(&path).ok()?;
    let mut words = text.split_whitespace();
    let mask = words.find_map(|word| word.strip_prefix("gpu_pg_mask_param=")?.parse().ok());
    mask.filter(|mask| *mask != NO_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gated(mask: u32, presets: &[(u32, Option<u32>)]) -> Option<Gated> {
        let presets = presets.iter().map(|&(id, tpc_pg_mask)| Preset {
            id,
            name: format!("MODE{id}"),
            tpc_pg_mask,
            ..Preset::default()
        });
        let nvpmodel = Nvpmodel {
            tpc: None,
            fbp: None,
            tpc_pg_mask: Some(mask),
            status: PathBuf::new(),
            presets: presets.collect(),
        };
        nvpmodel.gated()
    }

    #[test]
    fn what_a_mode_turns_on_is_told_in_words() {
        let modes = [(2, Some(240)), (0, Some(0)), (3, Some(0)), (4, None)];
        let found = gated(240, &modes).expect("gated");
        let text = found.to_string();
        let start = "4 TPCs of the GPU are off; `nvpmodel -m 0` (MODE0) and a reboot turn them on";
        assert!(text.starts_with(start), "{text}");
        let one = gated(241, &modes[..1]).expect("gated").to_string();
        assert!(
            one.starts_with("1 TPC of the GPU is off; `nvpmodel -m 2`"),
            "{one}"
        );
    }

    #[test]
    fn what_no_mode_turns_on_is_not_there() {
        // An Orin Nano has four TPCs, and the mask names eight.
        assert_eq!(gated(240, &[(0, Some(240)), (1, Some(252))]), None);
        assert_eq!(gated(0, &[(0, Some(0))]), None);
        assert_eq!(gated(240, &[(0, None)]), None);
    }
}
