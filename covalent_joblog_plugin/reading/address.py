# SPDX-License-Identifier: Apache-2.0
"""Where the Covalent server is."""

from __future__ import annotations

from urllib.parse import urlsplit

from covalent_joblog_plugin.model.errors import BadSelection


def server_address(given: str | None = None) -> str:
    """The server's URL, without a slash at the end.

    Args:
        given: ``http://host:port``, or ``host:port``; None for the one in Covalent's own configuration
            (``dispatcher.address`` and ``dispatcher.port``), where ``ct.dispatch`` sends to.

    Raises:
        BadSelection: It is no such address.
    """
    if given is None:
        # Covalent takes its time to be imported.
        from covalent._shared_files.utils import format_server_url  # noqa: PLC0415

        given = str(format_server_url())
    address = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or parts.query or parts.fragment:
        raise BadSelection("server", f"{given!r} is no address; write http://host:port")
    return address.rstrip("/")
