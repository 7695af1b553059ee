//! Which session somebody means: by its id or the beginning of it, by its title, or by its place in the list.

use super::{Index, IndexError, Query, stamp};
use piton_core::ids::SessionId;
use std::path::Path;

impl Index {
    /// The session that is meant, as seen from this folder: `last` and `-1` are the newest of the sessions that work in
    /// it or below it, `-2` the one before; then an id or the beginning of one, readable or not; then a title, and then
    /// a piece of one.
    pub fn named(&self, name: &str, project: &Path) -> Result<SessionId, IndexError> {
        if let Some(place) = place(name) {
            return self.at_place(place, project);
        }
        match self.find(name) {
            Err(IndexError::NoSuch { .. }) => self.titled(name),
            found => found,
        }
    }

    /// The session whose id begins like this, readable or not.
    pub fn find(&self, prefix: &str) -> Result<SessionId, IndexError> {
        let fits = |id: &SessionId| {
            let id = id.as_str();
            id.starts_with(prefix) || id.strip_prefix("ses_").is_some_and(|rest| rest.starts_with(prefix))
        };
        let ids = stamp::session_ids(&self.sessions_dir)?;
        if let Some(exactly) = ids.iter().find(|id| id.as_str() == prefix) {
            return Ok(exactly.clone());
        }
        let mut found: Vec<SessionId> = ids.into_iter().filter(|id| !prefix.is_empty() && fits(id)).collect();
        // Ids begin with the time.
        found.sort_by(|one, other| other.cmp(one));
        only(prefix, found)
    }

    fn at_place(&self, place: usize, project: &Path) -> Result<SessionId, IndexError> {
        let query = Query { project: Some(project.to_owned()), limit: Some(place), ..Query::default() };
        let mut newest = self.select(&query)?;
        let there_are = newest.len();
        match newest.pop().filter(|_| there_are == place) {
            Some(summary) => Ok(summary.id),
            None => Err(IndexError::TooFew { place, there_are, project: project.to_owned() }),
        }
    }

    fn titled(&self, name: &str) -> Result<SessionId, IndexError> {
        let wanted = name.trim().to_lowercase();
        let all = self.select(&Query { with_children: true, ..Query::default() })?;
        let fitting = |fits: &dyn Fn(&str) -> bool| -> Vec<SessionId> {
            all.iter().filter(|session| fits(&session.title.to_lowercase())).map(|session| session.id.clone()).collect()
        };
        let found = match fitting(&|title| title == wanted) {
            none if none.is_empty() && !wanted.is_empty() => fitting(&|title| title.contains(&wanted)),
            found => found,
        };
        only(name, if wanted.is_empty() { Vec::new() } else { found })
    }
}

/// `last` is 1, `-3` is 3.
fn place(name: &str) -> Option<usize> {
    match name {
        "last" => Some(1),
        name => name.strip_prefix('-')?.parse().ok().filter(|place| *place > 0),
    }
}

fn only(name: &str, mut found: Vec<SessionId>) -> Result<SessionId, IndexError> {
    match found.len() {
        0 => Err(IndexError::NoSuch { name: name.to_owned() }),
        1 => Ok(found.remove(0)),
        _ => Err(IndexError::Ambiguous { name: name.to_owned(), found }),
    }
}
