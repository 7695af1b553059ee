//! Which certificates a connection trusts. For an `http://` address none is read and no trust store is built, so that a
//! local server is asked within milliseconds of the program's start.

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

/// What a connection that speaks TLS trusts: the machine's certificates, company ones included, the bundled ones where the
/// machine has none, and `more`. `None`: no TLS will be spoken.
pub(crate) fn config(more: Option<&Roots>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    if let Some(more) = more {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        roots.add_parsable_certificates(more.0.iter().cloned());
    }
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
