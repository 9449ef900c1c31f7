//! The command line of the watchdog.

fn main() -> std::process::ExitCode {
    wattgate_watchdog::cli::run()
}
