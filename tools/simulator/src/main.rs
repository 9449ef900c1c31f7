//! The command line of the simulator.

fn main() -> std::process::ExitCode {
    wattgate_simulator::cli::run()
}
