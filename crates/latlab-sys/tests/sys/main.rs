//! What stands on the kernel's files: settings and their journals, the description of a machine, recordings.

mod machine;
mod record;
mod settings;
