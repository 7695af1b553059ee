//! Why there is no connection to a server.

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// Somebody has to log in; the scopes that are missing, where the server says so.
    NeedsLogin(Option<String>),
    /// Trying again would come to the same: the program is not there, the address is none.
    Hopeless(String),
    /// Something else.
    Failed(String),
    /// It is the other era, and has to be asked anew.
    IsModern,
    /// It answers what a modern client asks with something else, and has to be asked as a legacy one.
    IsLegacy,
}

/// A text in which addresses have neither what stands before `@` nor what stands behind `?`: keys are kept there.
pub(crate) fn without_keys(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        let is_end = |char: char| char.is_whitespace() || matches!(char, ')' | '"' | '\'' | '>' | '`' | ',');
        let (address, behind) = address.split_at(address.find(is_end).unwrap_or(address.len()));
        let plain = address.split(['?', '#']).next().unwrap_or_default();
        let host = plain.find('/').unwrap_or(plain.len());
        let user = plain[..host].rfind('@').map_or(0, |at| at + 1);
        shown.push_str(before);
        shown.push_str(&plain[user..]);
        if plain.len() < address.len() {
            shown.push_str("?…");
        }
        rest = behind;
    }
    shown.push_str(rest);
    shown
}

/// The scopes that a server misses, by its challenge.
pub(crate) fn missing_scope(challenge: Option<&str>) -> Option<String> {
    let challenge = challenge.filter(|challenge| challenge.contains("insufficient_scope"))?;
    let scope = challenge.split_once("scope=\"")?.1.split('"').next()?;
    Some(scope.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_of_an_address_is_in_an_error() {
        let text =
            "error sending request for url (https://me:pw@host:1/mcp?key=s3cret#x): see http://host/a@b, or ftp://u@h";
        assert_eq!(
            without_keys(text),
            "error sending request for url (https://host:1/mcp?…): see http://host/a@b, or ftp://h"
        );
    }

    #[test]
    fn the_scopes_that_are_missing_are_read() {
        let challenge = r#"Bearer error="insufficient_scope", scope="a b", resource_metadata="x""#;
        assert_eq!(missing_scope(Some(challenge)).as_deref(), Some("a b"));
        assert_eq!(missing_scope(Some("Bearer")), None);
    }
}
