"""The cluster's certificates pass the strict checks of today's clients."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509

from lab.nodes.pki import Authority, KeyPair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def handshake(authority: Authority, server: KeyPair, client: KeyPair | None, name: str) -> str:
    """The client's subject for the server, after a mutual TLS handshake with strict checks."""
    here, there = socket.socketpair()
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(server.certificate, server.key)
    accepting.load_verify_locations(authority.certificate)
    accepting.verify_mode = ssl.CERT_REQUIRED
    accepting.verify_flags |= ssl.VERIFY_X509_STRICT
    asking = ssl.create_default_context(cafile=str(authority.certificate))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        asking.load_cert_chain(client.certificate, client.key)
    seen: list[str] = []

    def serve() -> None:
        try:
            with accepting.wrap_socket(there, server_side=True) as accepted:
                subject = accepted.getpeercert() or {}
                seen.append(str(subject.get("subject")))
                accepted.sendall(b".")
        except OSError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asking.wrap_socket(here, server_hostname=name) as connection:
            connection.recv(1)
    finally:
        here.close()
        thread.join()
    return seen[0] if seen else ""


def test_server_and_client_certificates_are_verified_strictly(authority: Authority) -> None:
    server = authority.issue("server", "apiserver", addresses=["127.0.0.1"], names=["localhost"])
    client = authority.issue("client", "system:node:one", organization="system:nodes")
    seen = handshake(authority, server, client, "localhost")
    assert "system:node:one" in seen
    assert "system:nodes" in seen
    assert handshake(authority, server, client, "127.0.0.1") == seen


def test_a_name_that_is_not_in_the_certificate_is_refused(authority: Authority) -> None:
    server = authority.issue("server", "apiserver", names=["localhost"])
    client = authority.issue("client", "admin")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(authority, server, client, "elsewhere")


def test_another_authoritys_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    server = other.issue("server", "apiserver", names=["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(authority, server, None, "localhost")


def test_the_authority_may_sign_no_other_authority_and_leaves_sign_nothing(
    authority: Authority,
) -> None:
    root = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    constraints = root.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    pair = authority.issue("leaf", "leaf")
    leaf = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    assert not leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    leaf.verify_directly_issued_by(root)


def test_private_keys_are_readable_by_their_owner_alone(authority: Authority) -> None:
    for pair in (authority.issue("leaf", "leaf"), authority.signing_key("accounts")):
        assert pair.key.stat().st_mode & 0o777 == 0o600
