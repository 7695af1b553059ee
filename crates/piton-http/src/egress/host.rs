//! Hosts in one canonical spelling, and rules that open them.

use super::address;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Longest name, as DNS has it.
const MOST_CHARS: usize = 253;
/// The ports that a rule opens if it names none: those of HTTP and HTTPS.
pub(super) const USUAL_PORTS: [u16; 2] = [80, 443];

/// A host, spelled in one way only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A name: small ASCII letters, digits, `-` and `_` between dots, none at the end. Unicode is in its IDNA form.
    Name(String),
    /// An IP address.
    Address(IpAddr),
}

/// Why something is no host, or no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} is not a host: {why}")]
pub struct HostError {
    text: String,
    why: &'static str,
}

impl HostError {
    /// `text` may be anything; it is shown without control characters, and cut.
    pub(crate) fn new(text: &str, why: &'static str) -> Self {
        const SHOWN_CHARS: usize = 80;
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        Self { text: format!("{shown:?}"), why }
    }
}

impl Host {
    /// Reads a name, an IPv4 address in whatever notation, or an IPv6 address in brackets.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let no = |why| Err(HostError::new(text, why));
        let is_odd = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.:[]".contains(c);
        if text.is_empty() {
            return no("it is empty");
        }
        // Beyond this a name may grow by its IDNA form, and is measured again.
        if text.chars().count() > MOST_CHARS + 1 {
            return no("it is too long");
        }
        if text.contains(is_odd) {
            return no("it holds a character that no host has");
        }
        match url::Host::parse(text) {
            Ok(url::Host::Ipv4(address)) => Ok(Self::Address(address.into())),
            Ok(url::Host::Ipv6(address)) => Ok(Self::Address(address.into())),
            Ok(url::Host::Domain(name)) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                let is_label = |label: &str| {
                    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                    (1..=63).contains(&label.len()) && label.bytes().all(is_usual)
                };
                match name.len() <= MOST_CHARS && name.split('.').all(is_label) {
                    true => Ok(Self::Name(name.to_owned())),
                    false => no("a part of its name is empty, too long or not of letters and digits"),
                }
            }
            Err(_) => no("it is neither a name nor an address"),
        }
    }

    /// Whether it is a name that stands for the machine that asks, whatever a name server says (RFC 6761).
    pub(crate) fn is_own_machine(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

impl fmt::Display for Host {
    /// An IPv6 address is in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Place {
    /// The shortest rule that opens it.
    pub fn rule(&self) -> String {
        if USUAL_PORTS.contains(&self.port) { self.host.to_string() } else { self.to_string() }
    }
}

impl fmt::Display for Place {
    /// As a rule names it: `example.org:22`, `[2600::1]:443`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Place {
    /// Reads `host:port`, or a host alone where there is a port that goes without saying.
    pub fn parse(text: &str, usual: Option<u16>) -> Result<Self, HostError> {
        let (host, port) = split(text)?;
        let port = port.or(usual).ok_or_else(|| HostError::new(text, "it has no port"))?;
        Ok(Self { host: Host::parse(host)?, port })
    }
}

/// The one spelling of a host that a rule or a command names: with `*.` in front and a port behind, where it has them. What is no host
/// stays as it is.
pub fn spelled(text: &str) -> String {
    let spelled = || {
        let (host, _) = split(text).ok()?;
        let (below, name) = host.strip_prefix("*.").map_or(("", host), |name| ("*.", name));
        let name = Host::parse(name).ok().or_else(|| decoded(name))?;
        Some(format!("{below}{name}{}", &text[host.len()..]))
    };
    spelled().unwrap_or_else(|| text.to_owned())
}

/// A host of an address in which letters stand as `%62`: programs decode it.
fn decoded(name: &str) -> Option<Host> {
    match url::Host::parse(name).ok().filter(|_| name.contains('%'))? {
        url::Host::Domain(name) => Host::parse(&name).ok(),
        url::Host::Ipv4(address) => Some(Host::Address(address.into())),
        url::Host::Ipv6(address) => Some(Host::Address(address.into())),
    }
}

/// Parts a port from what stands before it.
fn split(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let port_at = match text.rfind(']') {
        Some(end) => text[end..].find(':').map(|colon| end + colon),
        None => text.rfind(':'),
    };
    let Some(at) = port_at else { return Ok((text, None)) };
    let digits = &text[at + 1..];
    let port = digits.parse::<u16>().ok().filter(|port| *port > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()));
    match port {
        Some(port) => Ok((&text[..at], Some(port))),
        None => Err(HostError::new(text, "its port is not a number from 1 to 65535")),
    }
}

/// What one entry of `[sandbox] net` opens: a host, or all names below one, at one port or at those of HTTP and HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    which: Which,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Which {
    Exactly(Host),
    /// Every name that ends with a dot and this, not this itself.
    Below(String),
}

impl HostRule {
    /// Reads `example.org`, `*.example.org`, `example.org:8443`, `93.184.215.14` or `[2600::1]:443`.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let no = |why| Err(HostError::new(text, why));
        if text.contains('/') {
            return no("write the host alone, without `https://` and without a path");
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return no("write an IPv6 address in brackets");
        }
        let (host, port) = split(text).map_err(|error| HostError::new(text, error.why))?;
        let which = match host.strip_prefix("*.") {
            Some(above) => match Host::parse(above).map_err(|error| HostError::new(text, error.why))? {
                Host::Name(name) => Which::Below(name),
                Host::Address(_) => return no("nothing is below an address"),
            },
            None if host.contains('*') => return no("`*` can only stand for what is before a name: `*.example.org`"),
            None => Which::Exactly(Host::parse(host).map_err(|error| HostError::new(text, error.why))?),
        };
        match which {
            Which::Exactly(Host::Address(address)) if !address::is_public(address) => {
                no("it is not a public address, and the sandbox opens no others")
            }
            Which::Exactly(ref host) if host.is_own_machine() => {
                no("it is this machine, and the sandbox does not open it")
            }
            Which::Below(ref above) if Host::Name(above.clone()).is_own_machine() => {
                no("it is this machine, and the sandbox does not open it")
            }
            which => Ok(Self { which, port }),
        }
    }

    /// Whether it opens this.
    pub(crate) fn opens(&self, place: &Place) -> bool {
        let is_host = match (&self.which, &place.host) {
            (Which::Exactly(open), host) => open == host,
            (Which::Below(above), Host::Name(name)) => {
                name.strip_suffix(above.as_str()).is_some_and(|below| below.ends_with('.'))
            }
            (Which::Below(_), Host::Address(_)) => false,
        };
        is_host && self.port.map_or(USUAL_PORTS.contains(&place.port), |port| port == place.port)
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.which {
            Which::Exactly(host) => host.fmt(f)?,
            Which::Below(above) => write!(f, "*.{above}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> String {
        Host::parse(text).map_or_else(|error| error.to_string(), |host| host.to_string())
    }

    #[test]
    fn a_host_has_one_spelling() {
        assert_eq!(host("Example.ORG"), "example.org");
        assert_eq!(host("example.org."), "example.org");
        assert_eq!(host("Bücher.example"), "xn--bcher-kva.example");
        assert_eq!(host("ｅxample。org"), "example.org");
        assert_eq!(host("_dmarc.x-y.example"), "_dmarc.x-y.example");
        for text in ["127.1", "0x7f.0.0.1", "2130706433", "017700000001", "127.0.0.1."] {
            assert_eq!(host(text), "127.0.0.1", "{text}");
        }
        assert_eq!(host("[::FFFF:7f00:1]"), "[::ffff:127.0.0.1]");
    }

    #[test]
    fn what_names_a_host_is_spelled_as_the_host_and_the_rest_stays() {
        for (text, one) in [
            ("Bücher.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example.:8443", "xn--bcher-kva.example:8443"),
            ("*.bücher.example:443", "*.xn--bcher-kva.example:443"),
            ("b%C3%BCcher.example", "xn--bcher-kva.example"),
            ("ex%61mple.org:80", "example.org:80"),
            ("0x7f.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(spelled(text), one, "{text}");
        }
        for odd in ["", "$host", "a:b", "a b", "example.org:0", "::1", "*", "*.", "%00.example", "x:y:z"] {
            assert_eq!(spelled(odd), odd);
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long = format!("{}.example", "a".repeat(64));
        let longest = format!("{}example", "abc.".repeat(70));
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".example.org",
            "example.org..",
            "example.org\0.evil.test",
            "evil.test\0",
            "example.org\n",
            "exa mple.org",
            "example.org%00",
            "%65xample.org",
            "user@example.org",
            "example.org/x",
            "example.org\\x",
            "example.org?",
            "example.org#",
            "*.example.org",
            "1.2.3.4.5",
            "256.1.1.1",
            "::1",
            "[::1",
            "[fe80::1%eth0]",
            "exa\u{ad}mple\u{0}.org",
            "\u{202e}gro.elpmaxe",
            &long,
            &longest,
        ] {
            assert!(Host::parse(text).is_err(), "{text:?}: {}", host(text));
        }
        assert_eq!(host("a\0b"), r#""a\0b" is not a host: it holds a character that no host has"#);
    }

    #[test]
    fn a_rule_opens_what_it_names() {
        let opens = |rule: &str, place: &str| HostRule::parse(rule).unwrap().opens(&Place::parse(place, None).unwrap());
        assert!(opens("example.org", "example.org:443") && opens("example.org", "EXAMPLE.org.:80"));
        assert!(!opens("example.org", "example.org:22") && !opens("example.org", "www.example.org:443"));
        assert!(!opens("example.org", "badexample.org:443") && !opens("example.org", "example.org.evil.test:443"));
        assert!(opens("example.org:22", "example.org:22") && !opens("example.org:22", "example.org:443"));
        assert!(opens("*.example.org", "a.example.org:443") && opens("*.example.org", "a.b.example.org:443"));
        assert!(!opens("*.example.org", "example.org:443") && !opens("*.example.org", "badexample.org:443"));
        assert!(opens("bücher.example", "xn--bcher-kva.example:443"));
        assert!(opens("93.184.215.14", "93.184.215.14:80") && !opens("*.example", "93.184.215.14:80"));
        assert!(opens("[2600::1]:443", "[2600:0::1]:443") && !opens("[2600::1]", "[2600::2]:443"));
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let why = |text: &str| HostRule::parse(text).unwrap_err().to_string();
        assert!(why("https://example.org").contains("write the host alone"));
        assert!(why("2600::1").contains("in brackets"));
        assert!(why("*").contains("`*.example.org`") && why("*:443").contains("`*.example.org`"));
        assert!(why("ex*.org").contains("`*.example.org`"));
        assert!(why("example.org:0").contains("port") && why("example.org:+80").contains("port"));
        assert!(why("127.0.0.1").contains("not a public address") && why("[::ffff:10.0.0.1]:80").contains("public"));
        assert!(why("*.127.0.0.1").contains("below an address"));
    }
}
