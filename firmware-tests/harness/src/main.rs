//! Builds the bare-metal images, runs them in QEMU, compares their consoles with the golden
//! report and their figures with `budgets.toml`. Failures are listed at the end.
//!
//! `WATTGATE_UPDATE_BUDGETS=1` writes the figures as the new budgets.

mod budgets;
mod elf;
mod layout;
mod profile;
mod stack;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use budgets::Budgets;

/// Figures of a target by name.
type Figures = BTreeMap<String, u64>;

/// Messages of all failures.
type Failures = Vec<String>;

struct Target {
    triple: &'static str,
    /// QEMU's program and machine; empty if the images are linked but not run.
    machine: &'static [&'static str],
    /// Whether `stack.rs` decodes its instructions.
    has_stack_decoder: bool,
}

const TARGETS: &[Target] = &[
    Target {
        triple: "aarch64-unknown-none",
        machine: &["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a76"],
        has_stack_decoder: true,
    },
    Target {
        triple: PLANTED_IN,
        machine: &["qemu-system-arm", "-M", "mps2-an386"],
        has_stack_decoder: true,
    },
    Target {
        triple: "thumbv8m.main-none-eabihf",
        machine: &["qemu-system-arm", "-M", "mps2-an505"],
        has_stack_decoder: true,
    },
    Target {
        triple: "thumbv7m-none-eabi",
        machine: &["qemu-system-arm", "-M", "lm3s6965evb"],
        has_stack_decoder: true,
    },
    Target {
        triple: "thumbv6m-none-eabi",
        machine: &[
            "qemu-system-arm",
            "-M",
            "microbit",
            "-global",
            "nrf51-soc.sram-size=32768",
        ],
        has_stack_decoder: true,
    },
    Target {
        triple: "armv7r-none-eabihf",
        machine: &[],
        has_stack_decoder: false,
    },
    Target {
        triple: "riscv32imac-unknown-none-elf",
        machine: &["qemu-system-riscv32", "-M", "virt", "-bios", "none"],
        has_stack_decoder: false,
    },
];

/// A Cortex-M4F, for which the sine images and the planted faults are built too.
const PLANTED_IN: &str = "thumbv7em-none-eabihf";

/// Planted faults, and the text that the checks must report for each.
const PLANTED: &[(&str, &str)] = &[
    ("planted-panic", elf::PANIC_AT_LINK),
    ("planted-format", "core::fmt"),
    ("planted-allocator", "alloc::"),
];

const IMAGES: [&str; 3] = ["boot", "count", "report"];

/// Images that print a golden text, and then figures. The text is in `weights/golden`.
const HOLDING: [&str; 2] = ["hold", "look"];

/// Between the golden text of an image and its figures.
const FIGURES: &str = "figures\n";

/// Timeout of an image.
const TIMEOUT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => examine_all(&folder),
        ["where", triple] => match show_where(&folder, triple) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: firmware-tests/run.sh [where TARGET]");
            ExitCode::FAILURE
        }
    }
}

/// Prints where flash, instructions and memory of `hold` go.
fn show_where(folder: &Path, triple: &str) -> Result<(), String> {
    let mut running = TARGETS.iter().filter(|target| !target.machine.is_empty());
    let triples: Vec<&str> = running.clone().map(|target| target.triple).collect();
    let target = running.find(|target| target.triple == triple);
    let target = target
        .ok_or_else(|| format!("no image runs on {triple}, expected {}", triples.join(", ")))?;
    let file = build(folder, triple, "hold", &[])?;
    profile::print("bytes of flash", &profile::flash(&file)?);
    for (image, call) in [("hold", "step"), ("look", "look of the estimator alone")] {
        let file = build(folder, triple, image, &[])?;
        let title = format!("mean instructions of a {call}");
        profile::print(&title, &profile::instructions(target.machine, &file)?);
    }
    layout::print(folder, triple)
}

/// Examines the images of all targets.
fn examine_all(folder: &Path) -> ExitCode {
    let mut budgets = match Budgets::read(&folder.join("budgets.toml")) {
        Ok(budgets) => budgets,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let mut failures = Failures::new();
    for target in TARGETS {
        println!("-- {}", target.triple);
        let (compiler, figures) = examine(folder, target, &mut failures);
        budgets.compare(target.triple, &compiler, &figures, &mut failures);
    }
    println!("-- sine, two hidden layers of 16, on a Cortex-M4F");
    let (compiler, figures) = sine(folder, &mut failures);
    budgets.compare("sine", &compiler, &figures, &mut failures);
    for (fault, expected) in PLANTED {
        println!("-- {fault}");
        if let Err(why) = finds_planted(folder, fault, expected) {
            failures.push(format!("{fault}: {why}"));
        }
    }
    if std::env::var_os("WATTGATE_UPDATE_BUDGETS").is_some()
        && let Err(why) = budgets.write()
    {
        failures.push(why);
    }
    print!("{}", budgets.table());
    for failure in &failures {
        println!("FAILED {failure}");
    }
    println!("images: {} failures", failures.len());
    ExitCode::from(u8::from(!failures.is_empty()))
}

/// Builds and runs the images of a target. Returns their compiler and figures.
fn examine(folder: &Path, target: &Target, failures: &mut Failures) -> (String, Figures) {
    let (mut compiler, mut figures) = (String::new(), Figures::new());
    let mut fail =
        |what: &str, why: String| failures.push(format!("{} {what}: {why}", target.triple));
    // One build of all images uses every core. The builds below report its failures.
    let others = ["bare", "count", "report", "hold", "look"].map(|bin| ["--bin", bin]);
    let _ = build(folder, target.triple, "boot", others.as_flattened());
    for image in IMAGES {
        let file = match build(folder, target.triple, image, &[]) {
            Ok(file) => file,
            Err(why) => {
                fail(image, why);
                continue;
            }
        };
        if image == "boot" {
            match elf::compiler(&file) {
                Ok(name) => compiler = name,
                Err(why) => fail(image, why),
            }
            let bare = build(folder, target.triple, "bare", &[]);
            match bare.and_then(|bare| Ok((elf::sizes(&file)?, elf::code(&bare)?))) {
                Ok((sizes, bare)) => {
                    figures.extend(sizes.map(|(name, bytes)| (name.to_owned(), bytes)));
                    let image = figures.get(elf::CODE).copied().unwrap_or(0);
                    figures.insert("engine, bytes".to_owned(), image.saturating_sub(bare));
                }
                Err(why) => fail(image, why),
            }
            if target.has_stack_decoder {
                match stack::deepest(&file) {
                    Ok(bytes) => {
                        figures.insert("stack, computed".to_owned(), bytes);
                    }
                    Err(why) => fail(image, why),
                }
            }
            match elf::forbidden_symbols(&file) {
                Ok(symbols) if symbols.is_empty() => {}
                Ok(symbols) => fail(image, format!("contains {}", symbols.join(", "))),
                Err(why) => fail(image, why),
            }
        }
        if target.machine.is_empty() {
            continue;
        }
        let counts = image != "report";
        match run(target, &file, counts) {
            Ok(console) if counts => {
                println!("{}", console.trim_end());
                figures.extend(numbers(&console));
                match run(target, &file, counts) {
                    Ok(again) if again == console => {}
                    Ok(_) => fail(image, "a second run gave other counts".to_owned()),
                    Err(why) => fail(image, why),
                }
            }
            Ok(console) => match compare_with_golden(folder, image, &console) {
                Ok(lines) => println!("report: {lines} lines as in weights/golden/report.txt"),
                Err(why) => fail(image, why),
            },
            Err(why) => fail(image, why),
        }
    }
    for image in HOLDING {
        match hold(folder, target, image) {
            Ok(found) => {
                let named = |(name, figure)| (format!("{image}: {name}"), figure);
                figures.extend(found.into_iter().map(named));
            }
            Err(why) => fail(image, why),
        }
    }
    (compiler, figures)
}

/// Measures an image that holds a limit or follows a power: its sizes and stack, and what it counts.
fn hold(folder: &Path, target: &Target, image: &str) -> Result<Figures, String> {
    let mut figures = Figures::new();
    let file = build(folder, target.triple, image, &[])?;
    let forbidden = elf::forbidden_symbols(&file)?;
    if !forbidden.is_empty() {
        return Err(format!("contains {}", forbidden.join(", ")));
    }
    let bare = build(folder, target.triple, "bare", &[])?;
    let [(_, code), (_, model), memory] = elf::sizes(&file)?;
    let flash = (code + model).saturating_sub(elf::code(&bare)?);
    figures.insert("flash, bytes".to_owned(), flash);
    figures.insert(memory.0.to_owned(), memory.1);
    if target.has_stack_decoder {
        figures.insert("stack, computed".to_owned(), stack::deepest(&file)?);
    }
    if target.machine.is_empty() {
        return Ok(figures);
    }
    let console = run(target, &file, true)?;
    if run(target, &file, true)? != console {
        return Err("a second run gave other counts".to_owned());
    }
    let (text, counted) = console.split_once(FIGURES).ok_or("no figures")?;
    let lines = compare_with_golden(folder, image, text)?;
    println!("{image}: {lines} lines as in weights/golden/{image}.txt");
    figures.extend(numbers(counted));
    Ok(figures)
}

/// Runs the same task in this runtime and in microflow. The runtime must need fewer instructions.
fn sine(folder: &Path, failures: &mut Failures) -> (String, Figures) {
    let (mut compiler, mut figures) = (String::new(), Figures::new());
    let target = TARGETS.iter().find(|target| target.triple == PLANTED_IN);
    for (image, options) in [
        ("sine-wattgate", [].as_slice()),
        (
            "sine-microflow",
            &[
                "--features",
                "microflow",
                "--target-dir",
                "target/microflow",
            ],
        ),
    ] {
        let measured = || {
            let built = build(folder, PLANTED_IN, image, options)?;
            // The feature's own target folder spares a rebuild of the other images.
            let file = match options.last() {
                Some(target_folder) => folder.join(target_folder).join(
                    built
                        .strip_prefix(folder.join("target"))
                        .map_err(|why| why.to_string())?,
                ),
                None => built,
            };
            let console = run(target.ok_or("no target")?, &file, true)?;
            Ok::<_, String>((elf::compiler(&file)?, elf::sizes(&file)?, console))
        };
        match measured() {
            Ok((name, sizes, console)) => {
                compiler = name;
                let sizes = sizes.map(|(name, bytes)| (name.to_owned(), bytes));
                for (name, figure) in sizes.into_iter().chain(numbers(&console)) {
                    figures.insert(format!("{image}: {name}"), figure);
                }
            }
            Err(why) => failures.push(format!("{image}: {why}")),
        }
    }
    let instructions = |image: &str| {
        figures
            .get(&format!("{image}: instructions an inference"))
            .copied()
    };
    if instructions("sine-wattgate") >= instructions("sine-microflow") {
        failures.push("sine: microflow needs no more instructions".to_owned());
    }
    (compiler, figures)
}

/// Builds an image and returns its file.
fn build(folder: &Path, triple: &str, image: &str, options: &[&str]) -> Result<PathBuf, String> {
    let output = Command::new(folder.join("../tools/cross.sh"))
        .args([
            triple,
            "build",
            "--release",
            "--locked",
            "-p",
            "wattgate-image",
        ])
        .args(["--bin", image])
        .args(options)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("tools/cross.sh: {why}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let what = if text.contains(elf::PANIC_AT_LINK) {
            format!("undefined symbol: {}", elf::PANIC_AT_LINK)
        } else {
            text.into_owned()
        };
        return Err(format!("does not build: {what}"));
    }
    Ok(folder
        .join("target")
        .join(triple)
        .join("release")
        .join(image))
}

/// Runs an image and returns its console.
fn run(target: &Target, file: &Path, counts: bool) -> Result<String, String> {
    let (program, machine) = target.machine.split_first().ok_or("no machine")?;
    let mut command = Command::new(program);
    command
        .args(machine)
        .args(["-nographic", "-nic", "none", "-semihosting", "-kernel"])
        .arg(file);
    if counts {
        // Virtual time advances by one nanosecond for each instruction.
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    // QEMU writes the semihosting console to its standard error, after its own warnings.
    let console = file.with_extension("console");
    let write =
        fs::File::create(&console).map_err(|why| format!("{}: {why}", console.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(write)
        .spawn()
        .map_err(|why| format!("{program}: {why}"))?;
    let start = Instant::now();
    let status = loop {
        match child
            .try_wait()
            .map_err(|why| format!("{program}: {why}"))?
        {
            Some(status) => break status,
            None if start.elapsed() > TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("still running after {} s", TIMEOUT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let text =
        fs::read_to_string(&console).map_err(|why| format!("{}: {why}", console.display()))?;
    if !status.success() {
        return Err(format!("ended with {status}; see {}", console.display()));
    }
    let qemu = |line: &&str| !line.starts_with("qemu-system") && !line.starts_with("Timer with");
    Ok(text
        .lines()
        .filter(qemu)
        .map(|line| format!("{line}\n"))
        .collect())
}

/// The numbers at the ends of lines, by the text before them.
fn numbers(console: &str) -> impl Iterator<Item = (String, u64)> {
    console.lines().filter_map(|line| {
        let (name, number) = line.rsplit_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    })
}

/// Compares a text with the golden one of this name. Returns the number of its lines.
fn compare_with_golden(folder: &Path, name: &str, console: &str) -> Result<usize, String> {
    let path = folder.join(format!("../weights/golden/{name}.txt"));
    let golden = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    let differ = golden
        .lines()
        .zip(console.lines())
        .position(|(a, b)| a != b);
    match differ {
        Some(line) => Err(format!(
            "line {} of the console differs from {}",
            line + 1,
            path.display()
        )),
        None if golden != console => Err(format!(
            "the console and {} differ in length",
            path.display()
        )),
        None => Ok(golden.lines().count()),
    }
}

/// Fails unless the checks detect a planted fault.
fn finds_planted(folder: &Path, fault: &str, expected: &str) -> Result<(), String> {
    let target_folder = format!("--target-dir=target/{fault}");
    let options = ["--features", fault, &target_folder];
    let found = match build(folder, PLANTED_IN, "boot", &options) {
        Err(why) => why,
        Ok(_) => {
            let file = folder
                .join("target")
                .join(fault)
                .join(PLANTED_IN)
                .join("release/boot");
            elf::forbidden_symbols(&file)?.join(", ")
        }
    };
    if !found.contains(expected) {
        return Err(format!("not detected; the checks reported {found:?}"));
    }
    println!(
        "detected, as expected: {}",
        found.chars().take(100).collect::<String>()
    );
    Ok(())
}
