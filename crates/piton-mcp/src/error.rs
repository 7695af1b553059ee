//! Why there is no connection to a server, and errors in words.

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// Somebody has to log in.
    NeedsLogin,
    /// Trying again would come to the same: the program is not there, the address is none.
    Hopeless(String),
    /// Something else.
    Failed(String),
    /// It is the other era, and has to be asked anew.
    IsModern,
}

/// An error with what is behind it, once each.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        let more = behind.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        source = behind.source();
    }
    words
}
