//! The measured models have the grids and shapes of the tables.

use wattgate_bench::case::{Case, GRIDS};
use wattgate_bench::tasks::{FullFront, OBJECTIVES, middle, query};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Region};

#[test]
fn every_case_has_its_modes_a_whole_front_and_answers() {
    for grid in GRIDS {
        for shape in Shape::ALL {
            let case = Case::new(grid, *shape);
            let model = case.model();
            assert_eq!(model.grid().modes(), grid.modes, "{}", grid.board);
            assert_eq!(model.shape(), *shape);
            let front = FullFront::from_model(&model, &Region::all(model.grid()), Confidence::P95);
            let points = front.points().len();
            assert!(
                !front.is_thinned() && points > 1,
                "{shape} on {}: {points}",
                grid.board
            );
            for objective in OBJECTIVES {
                assert!(front.select(&query(objective, middle(&front))).is_ok());
            }
        }
    }
}
