//! `cargo bench -p wattgate-bench`: the shipped model on the grid of the AGX Orin, and a sweep
//! with every shape.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wattgate_bench::case::{Case, ORIN_AGX, SHIPPED_SHAPE};
use wattgate_bench::tasks::{FullFront, OBJECTIVES, cold_start, middle, query, sweep};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Region};

fn shipped(criterion: &mut Criterion) {
    let case = Case::new(ORIN_AGX, SHIPPED_SHAPE);
    let model = case.model();
    let region = Region::all(&case.grid);
    criterion.bench_function("front", |bencher| {
        bencher.iter(|| FullFront::from_model(black_box(&model), &region, Confidence::P95));
    });
    criterion.bench_function("cold start", |bencher| {
        bencher.iter(|| cold_start(&case.file));
    });
    let front = FullFront::from_model(&model, &region, Confidence::P95);
    for objective in OBJECTIVES {
        let query = query(objective, middle(&front));
        criterion.bench_function(&format!("query/{objective:?}"), |bencher| {
            bencher.iter(|| front.select(black_box(&query)));
        });
    }
}

fn shapes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sweep");
    for shape in Shape::ALL {
        let case = Case::new(ORIN_AGX, *shape);
        let model = case.model();
        let region = Region::all(&case.grid);
        group.throughput(Throughput::Elements(u64::from(case.grid.modes())));
        group.bench_function(shape.to_string(), |bencher| {
            bencher.iter(|| sweep(&model, &region));
        });
    }
}

criterion_group!(benches, shipped, shapes);
criterion_main!(benches);
