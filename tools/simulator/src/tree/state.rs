//! The state of a board and its files at one moment.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wattgate_board_tables::{Board, Preset};

use super::errno::Errno;
use super::faults::Faults;
use super::file::File;
use super::layout::{Alias, Layout, files_of};
use crate::machine::Jetson;
use crate::unit::Unit;
use crate::workload::Workload;

/// A board, its files and their faults.
#[derive(Clone, Debug)]
pub struct State {
    pub jetson: Jetson,
    pub layout: Layout,
    /// Words that registers hold, by path.
    pub registers: BTreeMap<String, &'static str>,
    /// The id of nvpmodel's mode that is set.
    pub mode: u32,
    /// The id of the mode that nvpmodel's status names.
    pub status: u32,
    pub faults: Faults,
    /// Writes that a fault delays, each with its time.
    pub delayed: Vec<(Duration, String, String)>,
    /// The workload that a recorded board plays back. It can run no other.
    pub recorded: Option<Workload>,
}

impl State {
    /// A board that has booted in a mode of nvpmodel.
    pub fn new(board: Board, unit: Unit, seed: u64, mode: &Preset) -> Self {
        // Numbers vary from boot to boot (section 6.1).
        let layout = files_of(&board, &unit, (seed % 3) as usize);
        Self {
            jetson: Jetson::new(board, unit, seed, mode),
            layout,
            registers: BTreeMap::new(),
            mode: mode.id,
            status: mode.id,
            faults: Faults::default(),
            delayed: Vec::new(),
            recorded: None,
        }
    }

    /// The names in a directory, ascending.
    pub fn list(&self, directory: &str) -> Result<Vec<String>, Errno> {
        let directory = self.target(&format!("{}/", directory.trim_end_matches('/')))?;
        let paths = self.layout.files.keys().chain(self.layout.aliases.keys());
        let below = paths.filter_map(|path| path.strip_prefix(&directory)?.split('/').next());
        let names: BTreeSet<&str> = below.collect();
        match names.is_empty() {
            true => Err(Errno::Enoent),
            false => Ok(names.into_iter().map(str::to_owned).collect()),
        }
    }

    /// The path behind all aliases, and its file.
    pub fn resolve<'a>(&self, path: &'a str) -> Result<(Cow<'a, str>, &File), Errno> {
        // No file is listed under an alias.
        if let Some(file) = self.layout.files.get(path) {
            return Ok((Cow::Borrowed(path), file));
        }
        let path = self.target(path)?;
        let file = self.layout.files.get(&path).ok_or(Errno::Enoent)?;
        Ok((Cow::Owned(path), file))
    }

    /// The path behind all aliases, whether or not there is a file.
    pub fn target(&self, path: &str) -> Result<String, Errno> {
        let mut path = path.to_owned();
        while let Some((alias, rest)) = self.alias_in(&path) {
            if alias.core.is_some_and(|core| !self.is_online(core)) {
                return Err(Errno::Eio);
            }
            path = format!("{}{rest}", alias.target);
        }
        Ok(path)
    }

    /// The alias that a path starts with, and the rest of the path.
    pub fn alias_in<'a>(&self, path: &'a str) -> Option<(&Alias, &'a str)> {
        let split = |&at: &usize| {
            let rest = path.get(at..).filter(|rest| rest.starts_with('/'))?;
            Some((self.layout.aliases.get(&path[..at])?, rest))
        };
        self.layout.alias_lengths.iter().find_map(split)
    }

    /// Whether a core is online.
    pub fn is_online(&self, core: u32) -> bool {
        self.jetson.settings().online[core as usize]
    }

    /// The online cores of a cluster, or of all.
    pub fn online_cores(&self, cluster: Option<usize>) -> Vec<u32> {
        let board = self.jetson.board();
        let all = 0..board.cores();
        let within = |core: &u32| cluster.is_none_or(|at| board.clusters[at].contains(core));
        all.filter(|&core| self.is_online(core))
            .filter(within)
            .collect()
    }

    /// EIO while no core of a cluster is online.
    pub fn policy_lives(&self, cluster: usize) -> Result<(), Errno> {
        match self.online_cores(Some(cluster)).is_empty() {
            true => Err(Errno::Eio),
            false => Ok(()),
        }
    }
}
