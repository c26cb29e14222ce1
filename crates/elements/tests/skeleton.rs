//! The skeleton that `cargo xtask new-element` starts from is an element like any other: it
//! compiles, and its tests pass.

#[allow(unreachable_pub, reason = "the modules of the library are public")]
#[path = "../../../xtask/template/skeleton_element.rs"]
mod skeleton_element;
