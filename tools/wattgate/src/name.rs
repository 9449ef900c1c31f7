//! The name of a workload, by which its rows and its model are kept.
//!
//! A workload that tells its steps may tell its name, too. Else the name is that of the program's file, without the
//! extension. An interpreter, or a program that starts another one, names no workload: the first script or module in its arguments does,
//! or the first path. A command that tells none has no name, and the user is asked for one.

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
    let (program, arguments) = words.split_first()?;
    if is_one_of(program, &OPAQUE) {
        return None;
    }
    if !is_one_of(program, &STARTERS) {
        return from_file(program);
    }
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        if ["-m", "--module"].contains(&word.as_ref()) {
            match rest.next() {
                Some(module) if !is_one_of(module, &STARTERS) => return from_text(module),
                _ => {}
            }
        } else if is_script(word) {
            return from_file(word);
        } else if is_one_of(word, &OPAQUE) {
            return None;
        }
    }
    let is_path = |word: &&_| {
        let word: &str = AsRef::<str>::as_ref(*word);
        ["/", "./", "../"].iter().any(|it| word.starts_with(it)) && !word.contains(' ')
    };
    let mut paths = arguments.iter().filter(is_path);
    from_file(paths.find(|word| !is_one_of(word, &STARTERS))?)
}

/// Interpreters, whose names are without their version, and programs that start the one that follows.
const STARTERS: [&str; 37] = [
    "accelerate",
    "bash",
    "chrt",
    "conda",
    "dash",
    "env",
    "exec",
    "fish",
    "ionice",
    "julia",
    "lua",
    "nice",
    "node",
    "nohup",
    "numactl",
    "perl",
    "pipenv",
    "poetry",
    "pypy",
    "python",
    "rscript",
    "ruby",
    "setsid",
    "sh",
    "stdbuf",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "torch.distributed.launch",
    "torch.distributed.run",
    "torchrun",
    "unbuffer",
    "uv",
    "xvfb-run",
    "zsh",
];

/// Programs whose arguments do not tell what runs, as in a container.
const OPAQUE: [&str; 20] = [
    "apptainer",
    "cargo",
    "deepspeed",
    "docker",
    "dotnet",
    "go",
    "java",
    "jetson-containers",
    "make",
    "mpiexec",
    "mpirun",
    "nerdctl",
    "npm",
    "npx",
    "podman",
    "ros2",
    "singularity",
    "ssh",
    "su",
    "yarn",
];

/// The extensions of scripts, and of programs, which a name is without.
const SCRIPTS: [&str; 12] = [
    "bash", "cjs", "jl", "js", "lua", "mjs", "pl", "py", "pyc", "pyz", "rb", "sh",
];
const PROGRAMS: [&str; 3] = ["bin", "out", "exe"];

/// Whether the file of a program, without folder and version, such as `python` for `/usr/bin/python3.11`, is one of these.
fn is_one_of(program: &str, names: &[&str]) -> bool {
    let file = Path::new(program).file_name().and_then(OsStr::to_str);
    let file = file.unwrap_or_default().to_ascii_lowercase();
    let bare = file.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    // `ros2` is a whole name.
    names.contains(&file.as_str()) || names.contains(&bare)
}

fn extension(word: &str) -> Option<(&str, String)> {
    let (stem, extension) = word.rsplit_once('.')?;
    Some((stem, extension.to_ascii_lowercase()))
}

/// Whether a word is the file of a script. The text of a program may end like one.
fn is_script(word: &str) -> bool {
    let is_known = extension(word).is_some_and(|(_, it)| SCRIPTS.contains(&it.as_str()));
    is_known && !word.starts_with('-') && !word.contains([' ', '='])
}

/// The name of a file: without the extension of a program, so that `app-1.2` stays whole. The file `__main__.py` has
/// the name of its folder.
fn from_file(path: &str) -> Option<String> {
    let path = Path::new(path);
    let file = path.file_name()?.to_str()?;
    if file == "__main__.py" {
        return from_text(path.parent()?.file_name()?.to_str()?);
    }
    let known = |it: &str| SCRIPTS.contains(&it) || PROGRAMS.contains(&it);
    let stem = extension(file).filter(|(_, extension)| known(extension));
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
            ("node server.mjs", "server"),
            ("env A=b C=/d/e python3 train.py", "train"),
            ("env -u A -- python3 train.py", "train"),
            (
                "nice -n 10 stdbuf -oL taskset -c 0-3 python3 train.py",
                "train",
            ),
            ("nice -10 numactl --membind 0 ./a.out", "a"),
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
            "nice docker run image train.py",
            "java -jar app.jar",
            "python3 -c x=1",
            "python3 -m",
            "numactl -m",
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
