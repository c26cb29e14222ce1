//! Routes and the commands that change them, in both address families.

pub(crate) mod address;
pub(crate) mod command;
pub(crate) mod error;
pub(crate) mod route;
