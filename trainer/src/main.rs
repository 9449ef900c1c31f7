//! The command line of the trainer.

fn main() -> std::process::ExitCode {
    wattgate_trainer::cli::run()
}
