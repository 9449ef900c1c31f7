//! The command line of the laboratory.

fn main() -> std::process::ExitCode {
    wattgate_lab::cli::run()
}
