//! The command line of the profiler.

fn main() -> std::process::ExitCode {
    wattgate_profiler::cli::run()
}
