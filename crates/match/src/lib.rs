//! Rule sets and pattern sets, and the engines that search them.
//!
//! This crate contains the parts of classifiers and pattern matchers that do not depend on elements and packets:
//! data, parsers whose errors have a position, and the engines for the CPU. The large tables are **images**: flat,
//! position-independent arrays of 32-bit words, which a GPU kernel reads unchanged (`millrace-gpu`). The CPU uses the
//! same images for rules. For patterns, it has a table that fits its caches.

mod hyperscan;
pub mod patterns;
pub mod rules;
