//! What in a file is most like a text that was not found, for the model to see what it got wrong.

use std::collections::HashMap;

/// The closest lines, with their numbers.
pub(super) fn closest(content: &str, old: &str) -> String {
    /// Below this, lines have nothing to do with each other.
    const CUTOFF: f32 = 0.5;
    let wanted: Vec<&str> = old.lines().collect();
    let lines: Vec<&str> = content.lines().collect();
    let height = wanted.len().clamp(1, lines.len().max(1));
    match most_equal(&lines, &wanted) {
        Some((count, start)) => {
            let filled = wanted.iter().filter(|line| !line.trim().is_empty()).count();
            let what = if count == filled { "It differs only in whitespace from" } else { "The closest lines are" };
            format!("{what}:\n{}", numbered(&lines, start, height))
        }
        None => match most_similar(&lines, wanted.iter().find(|line| !line.trim().is_empty()).unwrap_or(&"")) {
            Some((ratio, start)) if ratio >= CUTOFF => {
                format!("The closest lines are:\n{}", numbered(&lines, start, height))
            }
            _ => "Nothing in it is similar: read it again.".to_owned(),
        },
    }
}

/// Where most lines are equal but for white space, and how many: each line votes for the places at which it would fit.
fn most_equal(lines: &[&str], wanted: &[&str]) -> Option<(usize, usize)> {
    /// A line that is in a file as often as this says nothing about where.
    const MOST_PLACES: usize = 1_000;
    let mut places: HashMap<&str, Vec<usize>> =
        wanted.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).map(|line| (line, Vec::new())).collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(places) = places.get_mut(line.trim())
            && places.len() < MOST_PLACES
        {
            places.push(at);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (row, line) in wanted.iter().enumerate() {
        for at in places.get(line.trim()).into_iter().flatten() {
            if let Some(start) = at.checked_sub(row).filter(|start| start + wanted.len() <= lines.len()) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    votes.into_iter().map(|(start, count)| (count, start)).max_by_key(|(count, start)| (*count, usize::MAX - start))
}

fn most_similar(lines: &[&str], wanted: &str) -> Option<(f32, usize)> {
    /// Comparing letter by letter takes time: not every line of a large file is.
    const LINES: usize = 3_000;
    const CHARS: usize = 200;
    let head = |text: &str| text.trim().chars().take(CHARS).collect::<String>();
    let wanted = head(wanted);
    let near = |line: &str| line.len() * 3 >= wanted.len() && wanted.len() * 3 >= line.trim().len().min(CHARS);
    let rated = lines.iter().take(LINES).enumerate().filter(|(_, line)| near(line)).map(|(at, line)| {
        let line = head(line);
        (crate::diff::likeness(&wanted, &line), at)
    });
    rated.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
}

fn numbered(lines: &[&str], start: usize, height: usize) -> String {
    /// More than this nobody compares.
    const SHOWN: usize = 15;
    const CHARS: usize = 300;
    let shown = lines.iter().enumerate().skip(start).take(height.min(SHOWN));
    let lines = shown.map(|(at, line)| {
        let visible: String = line.chars().filter(|char| *char == '\t' || !char.is_control()).take(CHARS).collect();
        format!("{}: {visible}", at + 1)
    });
    lines.collect::<Vec<_>>().join("\n")
}
