//! Benches.
pub(crate) fn bench(_names: &[&str]) -> anyhow::Result<()> {
    anyhow::bail!("soon")
}
