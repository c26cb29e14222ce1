//! The common data of all figures.

use std::sync::Arc;
use std::time::Duration;

use millrace_elements::ip::lookup::Route;
use millrace_gpu::Device;
use millrace_testkit::data::Data;

use super::apps::Fixture;
use crate::lookup::tables;
use crate::traffic;

/// The number of generated routes for the kernel alone, if there are no real ones.
const MANY_ROUTES: usize = 512_000;

/// Routes, and of what kind they are.
pub(super) struct Routes {
    pub(super) kind: &'static str,
    pub(super) routes: Vec<Route>,
}

impl Routes {
    /// The Internet's 512,621 routes of May 2014 if they were fetched, otherwise as many generated ones.
    pub(super) fn find() -> anyhow::Result<Self> {
        let file = Data::Routes.folder().map(|folder| folder.join("ipasn_20140513.dat"));
        Ok(match file.filter(|file| file.is_file()) {
            Some(file) => Self { kind: "real", routes: tables::read(&file)? },
            None => Self { kind: "made-up", routes: traffic::routes(MANY_ROUTES) },
        })
    }
}

/// What every figure is made on.
pub(super) struct Bench {
    pub(super) hertz: f64,
    pub(super) core: usize,
    /// All cores that this program may use.
    pub(super) cores: Vec<usize>,
    pub(super) rounds: u32,
    pub(super) packets: usize,
    pub(super) window: Duration,
    pub(super) rules: usize,
    /// For the kernel by itself.
    pub(super) routes: Routes,
    pub(super) device: Arc<dyn Device>,
    /// True if the device is a GPU, so that the design's targets apply.
    pub(super) is_gpu: bool,
    /// Bytes per second to the device, for a GPU.
    pub(super) bus: Option<f64>,
    pub(super) fixture: Fixture,
    /// The machine and the device, for the notes.
    pub(super) place: String,
    /// True for a quick test that the figures can be made: two values of each parameter.
    pub(super) brief: bool,
}

impl Bench {
    /// The values of a parameter: all, or the first and the last one in a quick test.
    pub(super) fn values<T: Copy>(&self, all: &[T]) -> Vec<T> {
        match all {
            [first, .., last] if self.brief => vec![*first, *last],
            all => all.to_vec(),
        }
    }
}
