//! TLS to a PostgreSQL server: which certificates are accepted.

use anyhow::{Context, anyhow};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Whose certificate a server must have.
#[derive(Clone, Debug, PartialEq)]
pub enum Certificate {
    /// Anybody's: whoever is between may read all.
    Any,
    /// One of these authorities, for any host.
    Of(PathBuf),
    /// One of these authorities, for this host.
    OfForHost(PathBuf),
    /// One of the system's authorities, for this host.
    OfSystemForHost,
}

/// Makes connections that accept these certificates.
///
/// # Errors
/// When root certificates cannot be read.
pub fn connector(certificate: &Certificate) -> anyhow::Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let any_name = match certificate {
        Certificate::Any => Some(None),
        Certificate::Of(file) => Some(Some(chain(roots(file)?, &provider)?)),
        Certificate::OfForHost(_) | Certificate::OfSystemForHost => None,
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let config = match (any_name, certificate) {
        (Some(chain), _) => {
            let verifier = Arc::new(AnyName { chain, provider });
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
        (None, Certificate::OfForHost(file)) => builder.with_root_certificates(roots(file)?),
        (None, _) => builder.with_root_certificates(system_roots()?),
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn chain(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> anyhow::Result<Arc<WebPkiServerVerifier>> {
    Ok(WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?)
}

fn roots(file: &Path) -> anyhow::Result<RootCertStore> {
    let name = || format!("root certificates {}", file.display());
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).with_context(name)? {
        store.add(certificate.with_context(name)?).with_context(name)?;
    }
    match store.is_empty() {
        true => Err(anyhow!("{}: no certificate in it", name())),
        false => Ok(store),
    }
}

fn system_roots() -> anyhow::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match store.is_empty() {
        true => Err(anyhow!("the system has no root certificates")),
        false => Ok(store),
    }
}

/// Accepts a certificate for any name: of one of the authorities, or where there are none, any. That
/// the server holds its key is verified.
#[derive(Debug)]
struct AnyName {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let verified =
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is compared after the chain was found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
