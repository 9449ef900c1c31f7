//! The name of a workload, by which its rows and its model are kept.
//!
//! A workload that tells its steps may tell its name, too. Else the name is that of the program's file, without the
//! extension. The file of an interpreter, of a launcher or of `env` names no workload: the script or the module does,
//! which follows their options. A command whose program nobody can know, such as `sh -c` or `docker run`, has no name,
//! and the user is asked for one.

use std::ffi::OsStr;
use std::path::Path;

/// Maximum length of a name in bytes.
const LONGEST: usize = 40;

/// What a name is, for messages.
pub const EXPECTED: &str = "1 to 40 of a-z, 0-9, `.`, `_` and `-`";

/// Whether a text is a name. A name is a part of file names.
pub fn is_name(text: &str) -> bool {
    let is_legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_legal)
}

/// The name that a text stands for: in lower case, with `-` for what a name cannot have. `None` if nothing is left, or
/// if it is too long: of two long names, one end would be lost.
pub fn from_text(text: &str) -> Option<String> {
    let legal = |character: char| match character.to_ascii_lowercase() {
        it @ ('a'..='z' | '0'..='9' | '.' | '_') => it,
        _ => '-',
    };
    let name: String = text.chars().map(legal).collect();
    let name = name.trim_matches('-');
    is_name(name).then(|| name.to_owned())
}

/// The name of a command's workload; `None` if the command does not tell.
pub fn from_command<S: AsRef<OsStr>>(command: &[S]) -> Option<String> {
    // What is no text is no option and no known program.
    let words = command.iter().map(|word| word.as_ref().to_string_lossy());
    let words: Vec<_> = words.collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    of_program(&words)
}

/// What follows the options of a program.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// Another program, after this number of other words.
    Program(usize),
    /// A script or a class.
    Script,
    /// Nobody knows.
    Unknown,
}

/// The options with a value in the next word.
#[derive(Clone, Copy)]
enum Valued {
    These(&'static [&'static str]),
    /// All but these.
    AllBut(&'static [&'static str]),
}

/// A program that starts another one.
struct Starter {
    names: &'static [&'static str],
    /// The command that is to follow its own options, such as `run`.
    command: Option<&'static str>,
    valued: Valued,
    /// Options whose value is the program's text.
    code: &'static [&'static str],
    next: Next,
}

const fn starter(
    names: &'static [&'static str],
    valued: &'static [&'static str],
    code: &'static [&'static str],
    next: Next,
) -> Starter {
    Starter {
        names,
        command: None,
        valued: Valued::These(valued),
        code,
        next,
    }
}

/// Launchers of torch. All other options have a value.
const TORCH_FLAGS: &[&str] = &[
    "--standalone",
    "--no-python",
    "--no_python",
    "--run-path",
    "--run_path",
];

/// The programs that name no workload. Names of interpreters are without their version.
const STARTERS: &[Starter] = &[
    starter(
        &["env"],
        &["-u", "--unset", "-C", "--chdir"],
        &["-S", "--split-string"],
        Next::Program(0),
    ),
    starter(&["nice"], &["-n", "--adjustment"], &[], Next::Program(0)),
    starter(
        &["ionice"],
        &["-c", "--class", "-n", "--classdata"],
        &[],
        Next::Program(0),
    ),
    starter(
        &["stdbuf"],
        &["-i", "--input", "-o", "--output", "-e", "--error"],
        &[],
        Next::Program(0),
    ),
    starter(
        &["sudo"],
        &[
            "-u", "--user", "-g", "--group", "-C", "-D", "--chdir", "-p", "--prompt",
        ],
        &[],
        Next::Program(0),
    ),
    starter(
        &["numactl"],
        &[
            "-C",
            "--physcpubind",
            "-N",
            "--cpunodebind",
            "-m",
            "--membind",
        ],
        &[],
        Next::Program(0),
    ),
    starter(
        &["time"],
        &["-f", "--format", "-o", "--output"],
        &[],
        Next::Program(0),
    ),
    starter(
        &["systemd-run"],
        &[
            "-p",
            "--property",
            "-u",
            "--unit",
            "-E",
            "--setenv",
            "--slice",
            "--uid",
        ],
        &[],
        Next::Program(0),
    ),
    starter(
        &[
            "nohup",
            "setsid",
            "unbuffer",
            "catchsegv",
            "prlimit",
            "exec",
            "busybox",
        ],
        &[],
        &[],
        Next::Program(0),
    ),
    starter(&["taskset"], &[], &[], Next::Program(1)),
    starter(&["chrt"], &["-T", "-P", "-D"], &[], Next::Program(1)),
    starter(
        &["timeout"],
        &["-k", "--kill-after", "-s", "--signal"],
        &[],
        Next::Program(1),
    ),
    Starter {
        command: Some("run"),
        ..starter(
            &[
                "uv",
                "poetry",
                "pdm",
                "pipenv",
                "rye",
                "pixi",
                "conda",
                "mamba",
                "micromamba",
            ],
            &[
                "-p",
                "--python",
                "--with",
                "--extra",
                "--group",
                "--project",
                "--directory",
                "--env-file",
                "-n",
                "--name",
                "--prefix",
                "-e",
            ],
            &["-c"],
            Next::Program(0),
        )
    },
    Starter {
        command: Some("launch"),
        valued: Valued::AllBut(&[
            "--multi_gpu",
            "--multi-gpu",
            "--cpu",
            "--mps",
            "-q",
            "--quiet",
            "--use_fsdp",
            "--use_deepspeed",
            "--debug",
        ]),
        ..starter(&["accelerate"], &[], &[], Next::Script)
    },
    Starter {
        valued: Valued::AllBut(TORCH_FLAGS),
        ..starter(
            &[
                "torchrun",
                "torch.distributed.run",
                "torch.distributed.launch",
            ],
            &[],
            &[],
            Next::Script,
        )
    },
    starter(
        &["python", "pypy", "pythonw"],
        &["-W", "-X", "--check-hash-based-pycs"],
        &["-c"],
        Next::Script,
    ),
    starter(
        &["sh", "bash", "dash", "ash", "zsh", "ksh", "fish"],
        &["-o", "-O", "--rcfile", "--init-file"],
        &["-c"],
        Next::Script,
    ),
    starter(
        &["node", "nodejs"],
        &["-r", "--require", "--import", "--loader"],
        &["-e", "--eval", "-p", "--print"],
        Next::Script,
    ),
    starter(
        &["java"],
        &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--add-modules",
        ],
        &[],
        Next::Script,
    ),
    starter(
        &["perl", "ruby", "lua", "luajit"],
        &["-I"],
        &["-e", "-E"],
        Next::Script,
    ),
    starter(
        &["julia"],
        &[
            "-t",
            "--threads",
            "-p",
            "--procs",
            "-J",
            "--sysimage",
            "-L",
            "--load",
        ],
        &["-e", "--eval", "-E", "--print"],
        Next::Script,
    ),
    starter(
        &["php", "rscript", "octave"],
        &[],
        &["-r", "-e", "--eval"],
        Next::Script,
    ),
    starter(
        &[
            "docker",
            "podman",
            "nerdctl",
            "jetson-containers",
            "singularity",
            "apptainer",
        ],
        &[],
        &[],
        Next::Unknown,
    ),
    starter(
        &[
            "mpirun",
            "mpiexec",
            "deepspeed",
            "ros2",
            "ssh",
            "su",
            "runuser",
        ],
        &[],
        &[],
        Next::Unknown,
    ),
    starter(
        &[
            "make", "cargo", "npm", "npx", "yarn", "bun", "deno", "dotnet", "go",
        ],
        &[],
        &[],
        Next::Unknown,
    ),
    starter(
        &[
            "xargs", "watch", "script", "perf", "strace", "gdb", "valgrind", "nsys", "ncu",
        ],
        &[],
        &[],
        Next::Unknown,
    ),
];

/// The starters that take a module in place of a script, by their first names, and the options for it.
const TAKE_MODULES: [&str; 4] = ["python", "torchrun", "accelerate", "uv"];
const MODULE: [&str; 2] = ["-m", "--module"];

/// The extensions that a name is without.
const EXTENSIONS: [&str; 20] = [
    "py", "pyc", "pyw", "pyz", "pex", "sh", "bash", "js", "mjs", "cjs", "jar", "java", "rb", "pl",
    "lua", "jl", "php", "bin", "out", "exe",
];

fn of_program(words: &[&str]) -> Option<String> {
    let program = words.first()?;
    let Some(starter) = starter_of(program) else {
        return of_file(program);
    };
    let takes_modules = TAKE_MODULES.contains(&starter.names[0]);
    let mut words = words[1..].iter();
    let mut command = starter.command;
    loop {
        let word = *words.next()?;
        let is_option = word.len() > 1 && word.starts_with('-') && word != "--";
        let option = word.split('=').next().unwrap_or(word);
        if is_option && takes_modules && MODULE.contains(&option) {
            let module = match word.split_once('=') {
                Some((_, module)) => module,
                None => words.next()?,
            };
            return of_module(module, words.as_slice());
        }
        if is_option && is_code(starter, option) {
            return None;
        }
        if is_option {
            let has_next = match starter.valued {
                Valued::These(valued) => valued.contains(&word),
                Valued::AllBut(flags) => !word.contains('=') && !flags.contains(&word),
            };
            if has_next {
                words.next()?;
            }
            continue;
        }
        if let Some(expected) = command.take() {
            // Another command, such as `uv pip`.
            if word != expected {
                return None;
            }
            continue;
        }
        let rest = words.as_slice();
        return match starter.next {
            _ if word == "--" => of_rest(starter.next, rest),
            Next::Program(_) if is_variable(word) => continue,
            next => of_rest(next, &[&[word][..], rest].concat()),
        };
    }
}

/// The name of what follows the options.
fn of_rest(next: Next, words: &[&str]) -> Option<String> {
    match next {
        Next::Program(skipped) => of_program(words.get(skipped..)?),
        Next::Script => of_file(words.first()?),
        Next::Unknown => None,
    }
}

/// The name of a module of Python with its arguments, which may be a launcher.
fn of_module(module: &str, arguments: &[&str]) -> Option<String> {
    match starter_of(module) {
        Some(_) => of_program(&[&[module][..], arguments].concat()),
        None => from_text(module),
    }
}

/// Whether a word sets a variable for the program that follows, as those of `env` do.
fn is_variable(word: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_legal))
}

/// Whether an option is followed by the text of a program. Shells take several letters at once, such as `-lc`.
fn is_code(starter: &Starter, option: &str) -> bool {
    let is_letters = option.len() > 2 && !option.starts_with("--") && starter.names[0] == "sh";
    starter.code.contains(&option) || (is_letters && option.contains('c'))
}

/// The starter with a program's name: without folder and version, such as `python` for `/usr/bin/python3.11`.
fn starter_of(program: &str) -> Option<&'static Starter> {
    let file = Path::new(program).file_name()?.to_str()?;
    let file = file.to_ascii_lowercase();
    let bare = file.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    let mut all = STARTERS.iter();
    // `ros2` and `torch.distributed.run` are whole names.
    all.find(|it| it.names.contains(&file.as_str()) || it.names.contains(&bare))
}

/// The name of a file: without the extension of a program, so that `app-1.2` stays whole. The file `__main__.py` has
/// the name of its folder.
fn of_file(path: &str) -> Option<String> {
    let path = Path::new(path);
    let file = path.file_name()?.to_str()?;
    if file == "__main__.py" {
        return from_text(path.parent()?.file_name()?.to_str()?);
    }
    let stem = file.rsplit_once('.').filter(|(_, extension)| {
        let extension = extension.to_ascii_lowercase();
        EXTENSIONS.contains(&extension.as_str())
    });
    from_text(stem.map_or(file, |(stem, _)| stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(command: &str) -> Option<String> {
        from_command(&command.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn a_program_or_its_script_names_the_workload() {
        for (command, name) in [
            ("deepstream-app -c config.txt", "deepstream-app"),
            ("./detect.bin", "detect"),
            ("/opt/app-1.2", "app-1.2"),
            ("./train.py --epochs 3", "train"),
            ("python3 train.py", "train"),
            (
                "/opt/venv/bin/python3.11 -u -W ignore -X dev src/Train.py -c x",
                "train",
            ),
            ("python -m ultralytics.train model=x", "ultralytics.train"),
            (
                "python -m torch.distributed.run --nproc_per_node 2 train.py",
                "train",
            ),
            ("python app/__main__.py", "app"),
            (
                "torchrun --standalone --nproc-per-node=2 --nnodes 1 train.py",
                "train",
            ),
            ("torchrun -m pkg.train", "pkg.train"),
            (
                "accelerate launch --multi_gpu --num_processes 2 train.py",
                "train",
            ),
            ("uv run --with torch train.py", "train"),
            ("uv run python -m pkg.mod", "pkg.mod"),
            ("uv run -m pkg.mod", "pkg.mod"),
            ("conda run -n jetson python train.py", "train"),
            ("sh run.sh python train.py", "run"),
            ("bash -e -o pipefail run.sh", "run"),
            ("node --require x.js server.mjs", "server"),
            ("java -cp a.jar:b.jar com.example.Main", "com.example.main"),
            ("java -Xmx1g -jar app.jar", "app"),
            ("env A=b C=/d/e python3 train.py", "train"),
            ("env -u A -- python3 train.py", "train"),
            (
                "nice -n 10 stdbuf -oL taskset -c 0-3 python3 train.py",
                "train",
            ),
            ("nice -10 numactl -m 0 ./a.out", "a"),
            ("timeout -k 5 1h setsid ionice -c 3 ./b", "b"),
            ("sudo -u me A=b python3 train.py", "train"),
            ("./My_Net.PY", "my_net"),
            ("./größe.py", "gr--e"),
        ] {
            assert_eq!(name_of(command).as_deref(), Some(name), "{command}");
        }
    }

    #[test]
    fn a_command_that_does_not_tell_has_no_name() {
        for command in [
            "",
            "python3",
            "python3 -",
            "python3 -c x=1",
            "python3 -m",
            "numactl -m 0",
            "sh -c x",
            "bash -lc x",
            "perl -e x",
            "node --eval x",
            "docker run -v /a:/a image",
            "ssh host train",
            "uv pip install x",
            "taskset 0x3",
            "env A=b",
            "./模型.py",
            "./a-name-of-more-than-forty-letters-is-too-long.py",
        ] {
            assert_eq!(name_of(command), None, "{command}");
        }
    }

    #[test]
    fn a_text_becomes_a_name_or_none() {
        assert_eq!(from_text("YOLO v8").as_deref(), Some("yolo-v8"));
        assert_eq!(from_text(&"n".repeat(40)), Some("n".repeat(40)));
        assert_eq!(from_text(&"n".repeat(41)), None);
        assert_eq!(from_text("//"), None);
        assert!(is_name("yolo-v8.1_b") && !is_name("YOLO") && !is_name("") && !is_name("a/b"));
    }
}
