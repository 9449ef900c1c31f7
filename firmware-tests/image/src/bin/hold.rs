//! From the bytes of a model to a governor that holds a limit on a simulated board, and the
//! instructions of its steps. Prints the golden text first, and then the figures.

#![no_std]
#![no_main]

use core::hint::black_box;
use core::mem::MaybeUninit;

use wattgate_image::{Counter, Semihosting, exit, only, paint_stack, used_stack};
use wattgate_report::{Console, LIMIT, SETTINGS, hold};
use wattgate_runtime::network::{Workspace, workspace_pairs};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Front, Governor, Model};

/// A section of its own, read at run time like a model in separate flash.
#[unsafe(link_section = ".models")]
static MODEL: [u8; include_bytes!("../../../../weights/tx1-image5000.wgt").len()] =
    *include_bytes!("../../../../weights/tx1-image5000.wgt");

/// A TX1 has 4 numbers of cores, 17 CPU clocks and 5 memory clocks.
static mut WORKSPACE: Workspace<{ workspace_pairs(Shape::Wide32, 4 + 17 + 5) }> = Workspace::new();
static mut FRONT: Front<64> = Front::new();
static mut GOVERNOR: MaybeUninit<Borrowing> = MaybeUninit::uninit();

type Borrowing = Governor<64, &'static Front<64>>;

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    paint_stack();
    // SAFETY: main runs once.
    let (workspace, front, place) = unsafe {
        (
            only(&raw mut WORKSPACE),
            only(&raw mut FRONT),
            only(&raw mut GOVERNOR),
        )
    };
    let Some(governor) = govern(workspace, front, place) else {
        exit(false);
    };
    let mut steps = Counter::new();
    hold(&mut Semihosting, governor, |governor, input| {
        steps.count(|| governor.step(black_box(input)))
    });
    let stack = used_stack();
    let mut console = Semihosting;
    console.text("figures\n");
    steps.print("instructions a step");
    console.field("stack ", stack, "\n");
    console.field("Governor<64>, bytes ", size_of::<Borrowing>() as u32, "\n");
    console.field("Front<64>, bytes ", size_of::<Front<64>>() as u32, "\n");
    exit(true)
}

/// Builds the governor in its place.
#[inline(never)]
fn govern<const PAIRS: usize>(
    workspace: &mut Workspace<PAIRS>,
    front: &'static mut Front<64>,
    place: &'static mut MaybeUninit<Borrowing>,
) -> Option<&'static mut Borrowing> {
    predict(workspace, front)?;
    // A static that is built by the compiler would be copied from the flash, as large as it is.
    let governor = place.write(Governor::new(SETTINGS, LIMIT));
    governor.set_front(front).ok()?;
    Some(governor)
}

/// Builds the front of the model.
#[inline(never)]
fn predict<const PAIRS: usize>(
    workspace: &mut Workspace<PAIRS>,
    front: &mut Front<64>,
) -> Option<()> {
    let parsed = Model::parse(black_box(&MODEL));
    let model = parsed.as_ref().ok()?;
    let mut network = workspace.network(model).ok()?;
    front.rebuild(&mut network, &model.profiled(), Confidence::P95);
    Some(())
}
