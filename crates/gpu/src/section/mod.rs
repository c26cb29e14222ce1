//! Sections at run time: lanes that collect, submit and deliver in order; failure; balance.
