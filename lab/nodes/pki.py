"""The cluster's certificates: one authority, and a certificate for each component."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=30)
# Certificates start this long before now, so that they stay valid when a machine's clock is set
# back.
MARGIN = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """Paths of a certificate and its private key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files lie in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("rackrate-lab", None)
        # Python 3.13 and later verify strictly and require both key identifiers.
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, digital_signature=True), critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
        self.certificate = directory / "ca.crt"
        self.certificate.write_text(self.pem, encoding="ascii")

    def issue(
        self,
        file_name: str,
        common_name: str,
        *,
        organization: str | None = None,
        addresses: Sequence[ipaddress.IPv4Address | ipaddress.IPv6Address | str] = (),
        names: Sequence[str] = (),
    ) -> KeyPair:
        """Issue a certificate for a client, and for a server if addresses or names are given."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_name(common_name, organization), self._name, key)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier),
                critical=False,
            )
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
                ),
                critical=False,
            )
        )
        alternatives: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address(str(address))) for address in addresses
        ]
        alternatives += [x509.DNSName(name) for name in names]
        if alternatives:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(self.directory / f"{file_name}.crt", self.directory / f"{file_name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair

    def signing_key(self, file_name: str) -> KeyPair:
        """Make a key pair without a certificate, as service account tokens need."""
        key = ec.generate_private_key(ec.SECP256R1())
        pair = KeyPair(self.directory / f"{file_name}.pub", self.directory / f"{file_name}.key")
        pair.certificate.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        _write_key(pair.key, key)
        return pair


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - MARGIN)
        .not_valid_after(now + LIFETIME)
    )


def _name(common_name: str, organization: str | None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _usage(*, key_cert_sign: bool = False, digital_signature: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
