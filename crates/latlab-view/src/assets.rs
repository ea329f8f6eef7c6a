//! The page: built from `viewer/trace` and committed; a test stage compares.

/// The page's markup.
pub const HTML: &str = include_str!("../assets/view.html");
/// Its script.
pub const SCRIPT: &str = include_str!("../assets/view.js");
/// Its style.
pub const STYLE: &str = include_str!("../assets/view.css");
