//! A board under a scenario, and what its holder knows.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board_tables::Board;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;

use super::task::ScenarioTask;
use crate::course::Course;
use crate::holders::{boot_mode, maxn};
use crate::models::WORKLOAD;

/// The board of one run, with its task.
#[derive(Debug)]
pub struct Plant<'a> {
    /// The task of the run.
    pub task: ScenarioTask<'a>,
    /// The board's tables.
    pub board: Board,
    /// How this unit of the board differs from the nominal one.
    pub unit: Unit,
    /// What the holder knows.
    pub course: Course,
}

impl<'a> Plant<'a> {
    /// The board of a seed, at its start. `weights` is the folder with the models.
    pub fn new(task: &ScenarioTask<'a>, seed: u64, weights: &Path) -> io::Result<(Self, Tree)> {
        let ScenarioTask {
            scenario,
            case,
            holder,
            ..
        } = task;
        let board = case.described().map_err(io::Error::other)?;
        let unit = match scenario.units {
            true => Unit::drawn(seed),
            false => Unit::NOMINAL,
        };
        let course = Course {
            length: scenario.length(),
            limits: scenario.limits(case),
            model: case.model(weights),
            sensor: *task.sensor,
        };
        let limit_mw = course.limit_mw(Duration::ZERO);
        let mode = boot_mode(*holder, &board, limit_mw);
        let tree = Tree::new(board.clone(), unit, seed, mode);
        let mut tree = tree.map_err(io::Error::other)?;
        let fixed = course.sensor.fix(&mut tree, Duration::ZERO);
        fixed.map_err(io::Error::other)?;
        let workload = case.workload(WORKLOAD).map_err(io::Error::other)?;
        if case.recorded.is_some() {
            tree.play_back(workload.clone());
        }
        for order in orders(task, &tree, &workload.name) {
            tree.control(&order).map_err(io::Error::other)?;
        }
        let plant = Self {
            task: *task,
            board,
            unit,
            course,
        };
        Ok((plant, tree))
    }

    /// The limit at a time, in mW.
    pub fn limit_mw(&self, at: Duration) -> u32 {
        self.course.limit_mw(at)
    }

    /// The first half of the model's file: a defective model.
    pub fn half_a_model(&self) -> io::Result<Vec<u8>> {
        let mut bytes = std::fs::read(&self.course.model)?;
        bytes.truncate(bytes.len() / 2);
        Ok(bytes)
    }

    /// The daemon's config file with the limit at a time, a model's file and the schedule.
    pub fn config(&self, at: Duration, model: &Path) -> String {
        let schedule = match self.task.scenario.by_clock {
            false => String::new(),
            true => {
                let [first, second, third] = self.task.case.stepped_mw;
                let entries = [("00", third), ("08", first), ("16", second)];
                let entry = |(hour, mw)| format!("{{ at = \"{hour}:00Z\", limit = \"{mw}mW\" }}");
                format!("schedule = [{}]\n", entries.map(entry).join(", "))
            }
        };
        let backstop = match self.task.scenario.backstop {
            false => "",
            true => "backstop = \"hardware\"\n",
        };
        self.course.config(at, Some(model)) + &schedule + backstop
    }
}

/// The scenario's orders, with the board's rails and paths, and the name of its workload, in place of the placeholders.
fn orders(task: &ScenarioTask<'_>, tree: &Tree, workload: &str) -> Vec<String> {
    let paths = |end: &str| {
        let files = tree.files().map(|(path, _)| path);
        let found: Vec<String> = files
            .filter(|path| path.ends_with(end))
            .map(str::to_owned)
            .collect();
        found
    };
    let rails = tree.jetson().board().rails.iter();
    let rails: Vec<String> = rails.map(|rail| rail.label.clone()).collect();
    let board = tree.jetson().board();
    let middle = |table: &[u32]| vec![table[table.len() / 2].to_string()];
    let words = [
        ("*", rails),
        ("HALF_CPU", middle(&board.cpu_khz)),
        ("HALF_GPU", middle(&board.gpu_khz)),
        (
            "MAXN",
            maxn::mode(board).iter().map(u32::to_string).collect(),
        ),
        ("GPU", paths("/max_freq")),
        ("FAN", paths("/pwm1")),
        ("BATTERY", task.case.battery.map(str::to_owned).to_vec()),
        (WORKLOAD, vec![workload.to_owned()]),
    ];
    let mut orders = vec![format!("load {workload}")];
    for order in task.scenario.orders {
        let word = words.iter().find(|(word, _)| order.contains(word));
        match word {
            Some((word, meant)) => {
                orders.extend(meant.iter().map(|meant| order.replace(word, meant)));
            }
            None => orders.push((*order).to_owned()),
        }
    }
    orders
}
