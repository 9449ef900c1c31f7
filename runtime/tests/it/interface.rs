//! The names at the root of the crate: what a user who holds a limit needs. All others are in modules.
//!
//! A change of the list is a change of the public interface.

const NAMES: &str = "\
Aim Choice Command Confidence FormatError Front Governor GovernorError Input Kilohertz Limit Microseconds Milliseconds Milliwatts \
ModeId Model Objective PowerMode Query Region Sample SelectError Settings Status";

const MODULES: &str = "estimator fleet format front governor grid guard idle model network quantities region select shape";

#[test]
fn the_root_has_the_names_of_the_list() {
    let source = include_str!("../../src/lib.rs");
    let names = |keyword: &str| -> Vec<String> {
        let statements = source
            .split(';')
            .filter_map(|it| it.trim().split_once(keyword));
        let public = statements.filter(|(before, _)| before.is_empty() || before.ends_with('\n'));
        let mut names: Vec<String> = public
            .flat_map(|(_, path)| {
                let last = path.rsplit("::").next().unwrap_or(path);
                last.split(['{', '}', ','])
                    .map(|name| name.trim().to_owned())
            })
            .filter(|name| !name.is_empty())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("pub use ").join(" "), NAMES);
    assert_eq!(names("pub mod ").join(" "), MODULES);
}
