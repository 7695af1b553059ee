//! Misspelled words: the one that was meant.

/// The word nearest to the one given, if one is near enough to be a misspelling of it.
pub fn nearest<'w>(said: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    /// Jaro-Winkler similarity below which two words have little in common.
    const NEAR: f64 = 0.8;
    let similarity = |word: &'w str| (strsim::jaro_winkler(said, word), word);
    let best = words.into_iter().map(similarity).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity >= NEAR).map(|(_, word)| word)
}

/// That word as the end of a sentence; empty where no word is near.
pub fn did_you_mean<'w>(said: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    nearest(said, words).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}
