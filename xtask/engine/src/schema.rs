//! The JSON schema of the configuration, as a file that editors can be pointed at and `piton config schema` prints.

use piton_engine::config::Config;
use std::path::Path;

/// Where it is published.
pub(crate) const FILE: &str = "docs/config.schema.json";

/// Writes it.
pub(crate) fn write() -> anyhow::Result<()> {
    std::fs::write(FILE, schema()?)?;
    println!("{FILE} is written");
    Ok(())
}

/// Whether what is published is what the code says.
pub(crate) fn check() -> anyhow::Result<()> {
    let published = std::fs::read_to_string(Path::new(FILE)).unwrap_or_default();
    anyhow::ensure!(published == schema()?, "{FILE} is not what the code says; make it with cargo xtask schema");
    Ok(())
}

fn schema() -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(&schemars::schema_for!(Config))?))
}
