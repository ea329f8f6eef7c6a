//! `docs/run.schema.json` is generated from the types of a run; this sees that it is fresh.

use std::path::PathBuf;

#[test]
fn the_committed_schema_is_fresh() {
    let schema = schemars::schema_for!(latlab_model::run::Run);
    let fresh = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/run.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &fresh).expect("docs/run.schema.json is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == fresh,
        "docs/run.schema.json is not what the types say; run\n    UPDATE_SCHEMA=1 cargo test -p latlab --test cli schema::\nand commit it"
    );
}
