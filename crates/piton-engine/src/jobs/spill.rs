//! What becomes of an outcome's text that is longer than the model reads: it is cut, and the whole of it stays in a file.

use piton_core::call::Outcome;
use piton_core::ids::CallId;
use piton_core::secrets::Firewall;
use piton_core::truncate::OutputCut;
use piton_tools::private;
use serde_json::json;
use std::io;
use std::path::PathBuf;

/// Where the whole text of an outcome stays that was cut for the model: a file in the session's folder.
pub(super) struct Spill {
    pub(super) cut: OutputCut,
    pub(super) folder: PathBuf,
    pub(super) call: CallId,
    pub(super) firewall: Firewall,
}

impl Spill {
    fn keep(&self, text: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(format!("{}.full", self.call));
        private::make_folder(&self.folder)?;
        private::write(&path, text.as_bytes())?;
        Ok(path)
    }
}

/// Takes secrets out, then cuts what a tool did not cut itself: a secret that is cut in two would not be known again.
pub(super) fn cap(outcome: &mut Outcome, spill: &Spill) {
    spill.firewall.outcome(outcome);
    // A tool that keeps its whole output elsewhere has cut what it returns; notices may have come on top.
    if outcome.metadata.get("output_path").is_some() {
        return;
    }
    let Some(mut text) = spill.cut.cut(&outcome.text) else { return };
    if let Ok(path) = spill.keep(&outcome.text) {
        text.push_str(&format!("\n[full output: {}]", path.display()));
        if !outcome.metadata.is_object() {
            outcome.metadata = json!({});
        }
        outcome.metadata["output_path"] = json!(path);
    }
    outcome.text = text;
}
