//! Texts from trees and graphs.

mod flat;

pub use flat::print_flat;
