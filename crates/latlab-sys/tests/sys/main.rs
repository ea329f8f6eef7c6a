//! What stands on the kernel's files: knobs and their journals, the description of a machine, recordings.

mod knobs;
mod machine;
mod record;
