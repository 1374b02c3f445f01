# SPDX-License-Identifier: Apache-2.0
"""Whether Kubernetes takes ``resources=``: names, quantities, and requests against limits; pure.

Nobody else tells in time: Trainer creates a TrainJob with resources that no pod can have, and then nothing
happens. The rules are those by which the API server judges a container's resources.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS = {"requests", "limits", "claims"}
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_QUALIFIED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_QUANTITY = re.compile(
    r"\+?(?P<number>\d+\.?\d*|\.\d+)(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)?|[eE](?P<exponent>[+-]?\d{1,3}))"
)
_POWERS = {
    **{suffix: Decimal(10) ** (3 * n) for n, suffix in enumerate("num kMGTPE", -3) if suffix != " "},
    **{f"{suffix}i": Decimal(1024) ** n for n, suffix in enumerate("KMGTPE", 1)},
}
_LIKELY = {
    **dict.fromkeys(("gpu", "gpus", "nvidia", "cuda"), "nvidia.com/gpu"),
    **dict.fromkeys(("tpu", "tpus"), "google.com/tpu"),
    **dict.fromkeys(("cpus", "vcpu", "vcpus", "core", "cores"), "cpu"),
    **dict.fromkeys(("mem", "ram"), "memory"),
    **dict.fromkeys(("disk", "storage"), "ephemeral-storage"),
}
"""What people write → what Kubernetes calls it."""


def check(executor: str, resources: Mapping[str, Any]) -> None:
    """Raise for resources that no container can have.

    Args:
        executor: Name of the executor's class.
        resources: ``{"requests": {…}, "limits": {…}}``, or a flat mapping that stands for both.

    Raises:
        OptionError: Naming the resource, the cause and the next step.
    """
    where = f"{executor}: resources"
    parts = _PARTS & set(resources)
    if others := sorted(map(repr, set(resources) - parts)) if parts else []:
        raise OptionError(
            f"{where}: {', '.join(others)} beside {', '.join(sorted(parts))}: give either "
            "{'requests': {…}, 'limits': {…}}, or only names of resources, which then count for both"
        )
    claims = resources.get("claims") or []
    if parts and (not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims)):
        raise OptionError(f"{where}: claims={claims!r} must be a list of dicts such as {{'name': 'gpu'}}")
    if not parts:
        _amounts(where, resources)
        return
    requests, limits = (_amounts(f"{where}: {part}", resources.get(part)) for part in ("requests", "limits"))
    for name, request in requests.items():
        _compare(where, name, request, limits.get(name))


def _amounts(where: str, given: Any) -> dict[str, Decimal]:
    if not isinstance(given or {}, dict):
        raise OptionError(f"{where}={given!r} must be a dict such as {{'cpu': '4', 'memory': '16Gi'}}")
    for name in given or {}:
        _check_name(where, name)
    return {name: _amount(where, name, value) for name, value in (given or {}).items()}


def _check_name(where: str, name: object) -> None:
    if not isinstance(name, str):
        raise OptionError(f"{where}: {name!r} must be the name of a resource, such as 'cpu'")
    if name in _NATIVE or _QUALIFIED.fullmatch(name):
        return
    if name.startswith("hugepages-") and _QUANTITY.fullmatch(name.removeprefix("hugepages-")):
        return
    likely = _LIKELY.get(name.lower()) or (name.lower() if name.lower() in _NATIVE else "")
    hint = f"did you mean {likely!r}?" if likely else f"there are {', '.join(_NATIVE)} and hugepages-<size>."
    raise OptionError(
        f"{where}: Kubernetes has no resource {name!r}: {hint} Those of devices have a domain, such as "
        "'nvidia.com/gpu'; kubectl describe nodes shows them"
    )


def _amount(where: str, name: str, value: object) -> Decimal:
    amount = quantity(value)
    if amount is None:
        raise OptionError(
            f"{where}: {name}={value!r} is no quantity: it takes a number that is not negative, such as 4 or "
            "'500m', or one with a unit of Kubernetes, such as '16Gi' or '500M'"
        )
    if "/" in name and amount != int(amount):
        raise OptionError(f"{where}: {name}={value!r}: devices are not divided: give a whole number")
    return amount


def quantity(value: object) -> Decimal | None:
    """What a quantity of Kubernetes amounts to; None for what is none, or below zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if not isinstance(value, str):
        return Decimal(str(value)) if math.isfinite(value) and value >= 0 else None
    found = _QUANTITY.fullmatch(value)
    if found is None:
        return None
    power = _POWERS[found["suffix"]] if found["suffix"] else Decimal(10) ** int(found["exponent"] or 0)
    return Decimal(found["number"]) * power


def _compare(where: str, name: str, request: Decimal, limit: Decimal | None) -> None:
    if name in _NATIVE and (limit is None or request <= limit):
        return
    if name not in _NATIVE and request == limit:
        return
    rule = "more is requested than its limit" if name in _NATIVE else "request and limit must be the same"
    raise OptionError(f"{where}: {name}: {rule}: change one of the two")
