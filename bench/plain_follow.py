# SPDX-License-Identifier: Apache-2.0
"""What ``kubectl logs -f`` does, of any number of pods.

``python -m bench.plain_follow KUBECONFIG NAMESPACE FOLDER POD…``

One request a pod, whose answer goes into FOLDER/POD as it comes until it ends; nothing is looked at, nothing
asked again. FOLDER ``-`` is stdout. The kubeconfig names a token and a file with the authority.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml

CONTAINER = "node"


async def _follow(session: aiohttp.ClientSession, url: str, out: int) -> None:
    async with session.get(url, params={"container": CONTAINER, "follow": "true"}) as response:
        response.raise_for_status()
        async for chunk in response.content.iter_any():
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(out, rest) :]


async def _main(config: dict[str, Any], namespace: str, folder: str, pods: list[str]) -> None:
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    outs = {pod: 1 if folder == "-" else os.open(Path(folder, pod), flags, 0o600) for pod in pods}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls),
        headers={"Authorization": f"Bearer {user['token']}"},
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        base = f"{cluster['server']}/api/v1/namespaces/{namespace}/pods"
        await asyncio.gather(*(_follow(session, f"{base}/{pod}/log", out) for pod, out in outs.items()))


if __name__ == "__main__":
    asyncio.run(_main(yaml.safe_load(Path(sys.argv[1]).read_text()), sys.argv[2], sys.argv[3], sys.argv[4:]))
