//! Rule sets and pattern sets, and the engines that search them.
//!
//! What a classifier or a pattern matcher *is* stands here, apart from elements and packets: data, parsers with places
//! in their errors, and the engines of the CPU. The big tables are **images**: flat arrays of 32-bit words, position
//! independent, which a GPU kernel walks as they are (`millrace-gpu`). The CPU walks those of rules, too; for patterns it
//! has a table that fits its caches.

mod hyperscan;
pub mod patterns;
pub mod rules;
