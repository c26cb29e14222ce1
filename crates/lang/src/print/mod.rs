//! Text from trees and graphs.

mod flat;
mod pretty;

pub use flat::print_flat;
pub use pretty::{format, print_file};
