//! Which certificates a connection trusts. For an `http://` address none is read and no trust store is built, so that a
//! local server is asked within milliseconds of the program's start.

use crate::options::HttpOptions;
use reqwest::Url;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;

/// Certificates that somebody trusts, such as a company's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Vec<CertificateDer<'static>>);

impl Roots {
    /// Reads the text of a PEM file. `None`: there is no certificate in it, or one that is damaged.
    pub fn parse(pem: &[u8]) -> Option<Self> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
        let mut store = rustls::RootCertStore::empty();
        let are_sound = found.iter().all(|certificate| store.add(certificate.clone()).is_ok());
        (are_sound && !found.is_empty()).then_some(Self(found))
    }
}

/// Whom a connection believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// No TLS will be spoken.
    Nobody,
    /// The machine's certificates, company ones included; the bundled ones where the machine has none.
    Machine,
}

impl Trust {
    pub(crate) fn of(url: &Url, options: &HttpOptions) -> Self {
        let proxy = options.proxies.to(url).unwrap_or_default();
        if url.scheme() == "http" && !proxy.starts_with("https:") { Self::Nobody } else { Self::Machine }
    }

    pub(crate) fn config(self, more: &Roots) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        match self {
            Self::Nobody => {}
            Self::Machine => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
                }
                roots.add_parsable_certificates(more.0.iter().cloned());
            }
        }
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default protocol versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Proxies;

    #[test]
    fn only_an_https_address_or_proxy_needs_certificates() {
        let url = |text: &str| Url::parse(text).unwrap();
        let plain = HttpOptions::default();
        let behind_tls = HttpOptions { proxies: Proxies::all("https://proxy:1"), ..HttpOptions::default() };
        assert_eq!(Trust::of(&url("http://127.0.0.1:1/v1"), &plain), Trust::Nobody);
        assert_eq!(Trust::of(&url("https://api.anthropic.com"), &plain), Trust::Machine);
        assert_eq!(Trust::of(&url("http://127.0.0.1:1/v1"), &behind_tls), Trust::Machine);
    }
}
