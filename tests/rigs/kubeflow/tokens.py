# SPDX-License-Identifier: Apache-2.0
"""Tokens that end soon: the API server itself gives none for less than ten minutes."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

if TYPE_CHECKING:
    from pathlib import Path


# For so long after its end the API server takes a token: clocks may differ.
LEEWAY = 60


def sign_token(key: Path, issuer: str, account: dict[str, Any], seconds: float) -> str:
    """A token of a ServiceAccount, signed with the key the API server signs with itself."""
    name, namespace = account["metadata"]["name"], account["metadata"]["namespace"]
    now = int(time.time())
    claims = {
        "iss": issuer,
        "aud": [issuer],
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "iat": now - 600,
        "nbf": now - 600,
        "exp": int(now + seconds - LEEWAY),
        "kubernetes.io": {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
        },
    }
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    if not isinstance(private, rsa.RSAPrivateKey):
        raise TypeError(f"{key} is no RSA key")
    signed = ".".join(_encode(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return f"{signed}.{_encode(private.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
