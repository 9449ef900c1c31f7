//! The minibatch as an input: errors for sizes that were not profiled.

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_lab::characterize::joint::Joint;
use wattgate_trainer::read::all_modes;
use wattgate_trainer::read::{Blank, Corpus, fed};

use crate::common::folder;
use crate::sized::Sized;

#[test]
fn a_size_between_profiled_ones_is_predicted_nearly_as_well() {
    let folder = folder();
    for name in ["mobilenetv3", "resnet18"] {
        let sized = Sized::new("orin-agx-64", name);
        let mut modes = sized.board.all_modes();
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
        modes.truncate(40);
        let few = &modes[..20];
        sized.profile(
            folder.path(),
            &[(16, &modes), (8, few), (32, few), (64, few)],
        );
        let path = folder.path().join("sizes.csv");
        let fed = Corpus::read_fed(&path, Blank::Defect, &ProgressBar::hidden());
        let joint = Joint::fit(&fed.expect("a corpus"), 1).expect("enough modes");
        // Of the profiled clocks, as for a choice.
        let mut modes: Vec<[u32; 4]> = all_modes(&joint.grid).collect();
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(8));
        modes.truncate(150);
        let on = joint.on(&modes);
        let errors = |size: u32| -> [f64; 2] {
            let feeding = fed::Feeding {
                minibatch: Some(size),
                workers: Some(sized.workers),
                storage: None,
                epoch: Some(1),
            };
            let predicted = on.with(&feeding).expect("within the profiled sizes");
            let mut sums = [0.0; 2];
            for (knobs, predicted) in modes.iter().zip(predicted) {
                let [time, power] = sized.truth(size, *knobs);
                let item_ms = 1e-3 * predicted.time_us / f64::from(size);
                sums[0] += (item_ms / time - 1.0).abs();
                sums[1] += (1e-3 * predicted.power_mw / power - 1.0).abs();
            }
            sums.map(|sum| 100.0 * sum / modes.len() as f64)
        };
        let mean = |sizes: &[u32], at: usize| {
            let all = sizes.iter().map(|&size| errors(size)[at]);
            all.sum::<f64>() / sizes.len() as f64
        };
        for (at, target) in ["time", "power"].into_iter().enumerate() {
            let [profiled, between] =
                [&[8, 32, 64][..], &[12, 24, 48]].map(|sizes| mean(sizes, at));
            println!(
                "{name}, {target}: profiled {profiled:.2} %, between {between:.2} %, simulated"
            );
            assert!(between <= 1.5 * profiled, "{name}: {between} {profiled}");
        }
        let beyond = fed::Feeding {
            minibatch: Some(128),
            ..joint.fed[0].feeding.clone()
        };
        assert!(!joint.covers(&beyond) && on.with(&beyond).is_none());
    }
}
