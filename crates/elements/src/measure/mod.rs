//! Looking at packets and counting them.
