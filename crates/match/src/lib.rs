//! Rule sets and pattern sets, and the engines that search them.
//!
//! What a classifier or a pattern matcher *is* stands here, apart from elements and packets: data, parsers with places
//! in their errors, and the engines of the CPU. The big tables are **images**: flat arrays of 32-bit words, position
//! independent, which the CPU walks here and a GPU kernel walks as they are (`millrace-gpu`).

mod hyperscan;
pub mod patterns;
pub mod rules;
