//! Why there is no answer, by what the caller can do about it, in words that name the address and never a key.

use reqwest::Url;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

/// Why there is no answer, or not all of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// It cannot be asked as it is: a bad address, an unusable proxy, a certificate that is not trusted, too long an
    /// answer. Asking again would fail the same way.
    #[error("{0}")]
    Unusable(String),
    /// There was no connection, so nothing of the request arrived.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing of this machine listens there: who is not there now comes in a moment or not at all.
    #[error("{0}")]
    NotListening(String),
    /// The connection broke after it was made. The request may have arrived, and been worked on.
    #[error("{0}")]
    CutOff(String),
    /// The server was silent for longer than it may be.
    #[error("the server sent nothing for {} s", .0.as_secs_f64())]
    Stalled(Duration),
}

impl HttpError {
    pub(crate) fn setup(error: &reqwest::Error) -> Self {
        Self::Unusable(format!("cannot set up HTTP ({})", innermost(error)))
    }

    /// Why a request did not arrive, or its answer did not.
    pub(crate) fn sending(error: &reqwest::Error, url: &Url, proxy: Option<&str>) -> Self {
        let address = address(url);
        if let Some(why) = chain(error).find_map(not_trusted) {
            // Another try would see the same.
            return Self::Unusable(format!("{address} {why}"));
        }
        let reason = if error.is_timeout() { "timed out".to_owned() } else { innermost(error) };
        let way = proxy.map(|proxy| format!(" by way of the proxy {proxy}")).unwrap_or_default();
        let words = format!("cannot connect to {address}{way} ({reason})");
        match error.is_connect() {
            true if proxy.is_none() && is_refused(error) && is_of_this_machine(url) => Self::NotListening(words),
            true => Self::Unreachable(words),
            false => Self::CutOff(format!("the request to {address}{way} failed ({reason})")),
        }
    }

    /// The answer broke off below HTTP: a reset, a short body, damaged compression.
    pub(crate) fn reading(error: &reqwest::Error, url: &Url) -> Self {
        Self::CutOff(format!("the answer of {} broke off ({})", address(url), innermost(error)))
    }
}

/// Scheme, host and port: enough to see who is meant, and never a key that somebody put into a URL.
pub fn address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

/// What a redirect points to, as [`address`] shows it.
pub fn redirected(from: &Url, location: &str) -> String {
    from.join(location).map_or_else(|_| "nowhere".to_owned(), |url| format!("{}{}", address(&url), url.path()))
}

/// An error and what it says are its causes; an error of the operating system may hold another one.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    fn cause<'e>(error: &&'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
        let error: &'e (dyn Error + 'static) = *error;
        match error.downcast_ref::<std::io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    }
    std::iter::successors(Some(error), cause)
}

/// What is wrong with how a server shows who it is, if that is what went wrong.
fn not_trusted(cause: &(dyn Error + 'static)) -> Option<String> {
    match cause.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(why) => Some(format!(
            "shows a certificate that is not trusted here ({why}); if it is your own, name the file of whoever signed \
             it as ca_file in [http] or at the provider"
        )),
        rustls::Error::InvalidMessage(_) => {
            Some("does not speak TLS; if it is a server without certificates, write http:// for https://".to_owned())
        }
        _ => None,
    }
}

fn is_of_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_refused(error: &reqwest::Error) -> bool {
    let refused = |cause: &(dyn Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    chain(error).any(refused)
}

/// The last cause in a chain of errors, in plain words.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if let Some(io) = cause.downcast_ref::<std::io::Error>() {
        return match io.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            std::io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
            std::io::ErrorKind::TimedOut => "timed out".to_owned(),
            std::io::ErrorKind::UnexpectedEof => "connection closed".to_owned(),
            _ => io.to_string(),
        };
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_no_credentials() {
        let url = Url::parse("https://user:secret@host:8443/path?key=secret").unwrap();
        assert_eq!(address(&url), "https://host:8443");
    }
}
