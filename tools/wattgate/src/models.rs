//! The models of a board's workloads, each in a file with the workload's name.

use std::fs;
use std::path::PathBuf;

use wattgate_cli::exit::note;

use crate::name;

/// The folder of a board's models.
#[derive(Clone, Debug)]
pub struct Models {
    pub folder: PathBuf,
}

impl Models {
    /// The model of a workload, if there is one.
    pub fn of(&self, workload: &str) -> Option<PathBuf> {
        let path = self.folder.join(format!("{workload}.wgt"));
        path.is_file().then_some(path)
    }

    /// The names of the workloads that have a model.
    pub fn workloads(&self) -> Vec<String> {
        // A folder that cannot be read has no model for us.
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let name = name.strip_suffix(".wgt")?;
            (name::is_name(name) && file.path().is_file()).then(|| name.to_owned())
        });
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }

    /// The model of a workload that has told its name while the limit was held with another model, the file `in_force`, or with none.
    /// Returns the name of its file. Says which of both holds from now on.
    pub fn told(&self, told: &str, in_force: Option<&str>) -> Option<String> {
        let held = held_with(in_force);
        let Some(workload) = name::from_text(told) else {
            note(format_args!(
                "warning: the workload tells the name `{told}`, but a name has {}; {held}; --model names another",
                name::EXPECTED
            ));
            return None;
        };
        let file = format!("{workload}.wgt");
        if in_force == Some(file.as_str()) {
            return None;
        }
        let Some(path) = self.of(&workload) else {
            note(format_args!(
                "warning: the workload is `{workload}`, of which {} has no model; {held}; \
                 `wattgate learn` makes one of `{workload}`, --model names another",
                self.folder.display()
            ));
            return None;
        };
        note(format_args!(
            "the workload is `{workload}`: the model is {} from now on",
            path.display()
        ));
        Some(file)
    }
}

/// What holds a limit, in words.
pub fn held_with(in_force: Option<&str>) -> String {
    in_force.map_or("the limit is held without a model".to_owned(), |file| {
        format!("the limit is held with {file}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_told_name_finds_its_model_unless_that_is_in_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let models = Models {
            folder: folder.path().to_owned(),
        };
        for name in ["yolo.wgt", "bert.wgt", "No Name.wgt", "yolo.csv"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        fs::create_dir(folder.path().join("folder.wgt")).expect("made");
        assert_eq!(models.workloads(), ["bert", "yolo"]);
        let yolo = models.told("YOLO", Some("bert.wgt"));
        assert_eq!(yolo.as_deref(), Some("yolo.wgt"));
        assert_eq!(models.told("yolo", Some("yolo.wgt")), None);
        assert_eq!(models.told("lstm", None), None);
        assert_eq!(models.told("//", Some("yolo.wgt")), None);
        let absent = Models {
            folder: folder.path().join("none"),
        };
        assert!(absent.workloads().is_empty());
    }
}
