//! The commands of `wattgated` that people type: `status`, `watch`, `set-limit` and `restore`.

use lexopt::Parser;
use wattgate_watchdog::cli::{restore, set, status, watch};

use super::Failure;

/// A text of `wattgated`'s help with the name of this program.
fn renamed(help: String) -> String {
    let names = ["status", "watch", "set-limit", "restore"];
    names.iter().fold(help, |text, name| {
        text.replace(&format!("wattgated {name}"), &format!("wattgate {name}"))
    })
}

pub fn status_help() -> String {
    renamed(status::help())
}

pub fn status(arguments: Parser) -> Result<(), Failure> {
    Ok(status::run(arguments)?)
}

pub fn watch_help() -> String {
    renamed(watch::help())
}

pub fn watch(arguments: Parser) -> Result<(), Failure> {
    Ok(watch::run(arguments)?)
}

pub fn set_limit_help() -> String {
    renamed(set::limit_help())
}

pub fn set_limit(arguments: Parser) -> Result<(), Failure> {
    Ok(set::limit(arguments)?)
}

pub fn restore_help() -> String {
    renamed(restore::help())
}

pub fn restore(arguments: Parser) -> Result<(), Failure> {
    Ok(restore::run(arguments)?)
}
