//! What every figure is made on.

use std::sync::Arc;
use std::time::Duration;

use millrace_elements::ip::lookup::Route;
use millrace_gpu::Device;
use millrace_testkit::data::Data;

use super::apps::Fixture;
use crate::lookup::tables;
use crate::traffic;

/// Routes that are made up where there are no real ones, for the kernel by itself.
const MANY_ROUTES: usize = 512_000;

/// Routes, and of what kind they are.
pub(super) struct Routes {
    pub(super) kind: &'static str,
    pub(super) routes: Vec<Route>,
}

impl Routes {
    /// The Internet's 512,621 of May 2014, where they have been fetched and named, else as many that are made up.
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
    /// Whether what the design asks of a GPU is asked of the device.
    pub(super) is_gpu: bool,
    /// Bytes a second to the device, of a GPU.
    pub(super) bus: Option<f64>,
    pub(super) fixture: Fixture,
    /// What the figures are true of, for the notes.
    pub(super) place: String,
    /// Whether to do no more than shows that the figures can be made: two values of what varies.
    pub(super) brief: bool,
}

impl Bench {
    /// The values of what varies: all, or in brief the first and the last one.
    pub(super) fn values<T: Copy>(&self, all: &[T]) -> Vec<T> {
        match all {
            [first, .., last] if self.brief => vec![*first, *last],
            all => all.to_vec(),
        }
    }
}
