//! The commands of `wattgated` that people type: `status`, `watch`, `set-limit` and `restore`.

use lexopt::Parser;
use wattgate_watchdog::cli::{RESTORE, SET_LIMIT, STATUS, Shared, WATCH};

use super::Failure;

/// The text of the help, with the name of this program.
fn help(command: &Shared) -> String {
    let names = ["status", "watch", "set-limit", "restore"];
    names.iter().fold((command.help)(), |text, name| {
        text.replace(&format!("wattgated {name}"), &format!("wattgate {name}"))
    })
}

pub fn status_help() -> String {
    help(&STATUS)
}

pub fn status(arguments: Parser) -> Result<(), Failure> {
    Ok((STATUS.run)(arguments)?)
}

pub fn watch_help() -> String {
    help(&WATCH)
}

pub fn watch(arguments: Parser) -> Result<(), Failure> {
    Ok((WATCH.run)(arguments)?)
}

pub fn set_limit_help() -> String {
    help(&SET_LIMIT)
}

pub fn set_limit(arguments: Parser) -> Result<(), Failure> {
    Ok((SET_LIMIT.run)(arguments)?)
}

pub fn restore_help() -> String {
    help(&RESTORE)
}

pub fn restore(arguments: Parser) -> Result<(), Failure> {
    Ok((RESTORE.run)(arguments)?)
}
