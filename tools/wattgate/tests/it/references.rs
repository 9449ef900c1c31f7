//! Which models a new workload's model is transferred from.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use wattgate_cli::planning::MOST_REFERENCES;
use wattgate_profiler::references::{Board, references};
use wattgate_runtime::Model;
use wattgate_runtime::format::Kind;

/// Copies a shipped model, and returns the names of its board and its workload.
fn copy(name: &str, to: &Path) -> [String; 2] {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    fs::copy(weights.join(name), to).expect("copied");
    let bytes = fs::read(to).expect("read");
    let model = Model::parse(&bytes).expect("a model");
    let provenance = model.provenance().expect("a provenance");
    [provenance.device.to_owned(), provenance.workload.to_owned()]
}

fn board_of(device: &str, kind: Kind) -> Board<'_> {
    Board {
        device,
        kind,
        // As the simulated corpora of Orins say.
        tpc_pg_mask: device.starts_with("orin-nano").then_some(240),
    }
}

#[test]
fn models_of_other_workloads_on_the_board_are_references_the_latest_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let none = board_of("no-board", Kind::Simulated);
    assert!(references(&path("absent"), &none, "new").is_empty());

    let [board, workload] = copy("orin-nano-8-super-resnet18.wgt", &path("old.wgt"));
    copy("orin-nano-8-super-resnet18.wgt", &path("new.wgt"));
    copy("orin-nano-8-super-resnet18.wgt", &path("model.bak"));
    copy("xavier-agx-resnet18.wgt", &path("xavier.wgt"));
    let [measured, _] = copy("tx1-image5000.wgt", &path("tx1.wgt"));
    fs::write(path("broken.wgt"), "no model").expect("written");
    fs::create_dir(path("folder.wgt")).expect("created");
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    let old = File::options().write(true).open(path("old.wgt"));
    old.and_then(|file| file.set_modified(an_hour_ago))
        .expect("set");

    let names = |board: &str, workload: &str, kind| -> Vec<String> {
        let found = references(folder.path(), &board_of(board, kind), workload).into_iter();
        let name = |path: String| Path::new(&path).file_name()?.to_str().map(str::to_owned);
        found.filter_map(name).collect()
    };
    assert_eq!(
        names(&board, "new", Kind::Simulated),
        ["new.wgt", "old.wgt"]
    );
    assert_eq!(names(&measured, "new", Kind::Measured), ["tx1.wgt"]);
    // A continued corpus, a real board of that name, another board.
    assert!(names(&board, &workload, Kind::Simulated).is_empty());
    assert!(names(&board, "new", Kind::Measured).is_empty());
    assert!(names(&board, "new", Kind::Recorded).is_empty());
    assert!(names("no-board", "new", Kind::Simulated).is_empty());

    let other_mask = Board {
        tpc_pg_mask: Some(0xff),
        ..board_of(&board, Kind::Simulated)
    };
    assert!(references(folder.path(), &other_mask, "new").is_empty());

    for number in 0..2 * MOST_REFERENCES {
        copy(
            "orin-nano-8-super-resnet18.wgt",
            &path(&format!("{number}.wgt")),
        );
    }
    assert_eq!(names(&board, "new", Kind::Simulated).len(), MOST_REFERENCES);
}
