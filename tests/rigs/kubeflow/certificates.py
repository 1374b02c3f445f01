# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of the rig's servers and clients."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

# Training Operator replaces a pair whose authority lacks this name or has its key in another form than this.
AUTHORITY_NAME = "training-operator-ca"


class Authority:
    """A certificate authority of one rig: ``ca.crt`` and ``ca.key`` in ``folder``, and what it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self.key = folder / "ca.key"

    def create(self) -> None:
        """Make the authority's own pair."""
        self.folder.mkdir(mode=0o700)
        self._key = self.make_key("ca")
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rig-ca")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        names = x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)])
        builder = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self._write(builder.add_extension(names, critical=False), "ca")

    def make_key(self, name: str) -> rsa.RSAPrivateKey:
        """Make ``<name>.key`` and ``<name>.pub``."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        path = self.folder / f"{name}.key"
        path.touch(mode=0o600)
        form = serialization.PrivateFormat.TraditionalOpenSSL
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        (self.folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, public)
        )
        return key

    def issue(self, name: str, user: str, *, group: str | None = None, hosts: tuple[str, ...] = ()) -> None:
        """Make ``<name>.crt`` and ``<name>.key`` for a client, who may serve at ``hosts`` too."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        if group:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts or (f"{name}.rig.test",)])
        builder = self._builder(x509.Name(attributes), self.make_key(name))
        self._write(builder.add_extension(usage, critical=False).add_extension(names, critical=False), name)

    def _builder(self, subject: x509.Name, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(days=365))
        )

    def _write(self, builder: x509.CertificateBuilder, name: str) -> None:
        signed = builder.sign(self._key, hashes.SHA256())
        (self.folder / f"{name}.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
