# SPDX-License-Identifier: Apache-2.0
"""What to tell the user about a result that did not come out of its pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import pod_delivery

if TYPE_CHECKING:
    from .pod_bundle import PodVerdict


def overflow_text(found: PodVerdict, *, framing: bool) -> str:
    """What to tell the user about a result that could not be delivered.

    Args:
        found: What the pod says of it.
        framing: Whether its log could have taken the result.
    """
    size = f"the result has {_mebibytes(found.verdict.size)} as Covalent packs it"
    if found.problem:
        lines = [f"{size} and could not be written on {found.verdict.host}: {found.problem}"]
    else:
        lines = [
            f"{size}, too large to come back without a store: {_room(found.verdict.size, framing=framing)}"
        ]
    where = "JOBLOG_RESULT_DIR in environment to a folder of the pod that stays, to have it kept there"
    if found.where == "file":
        lines.append(
            f"it was written to {found.place} there; covalent.TransportableObject.deserialize(its bytes)"
            ".get_deserialized() is the value"
        )
        where = ""
    cures = [
        "set store= to a folder that Covalent's server and the pods reach",
        where,
        "return less, such as a path",
    ]
    return "\n".join([*lines, ", or ".join(cure for cure in cures if cure)])


def _room(size: int, *, framing: bool) -> str:
    """What would have fitted."""
    if size > pod_delivery.ARCHIVE_BYTES:
        return f"it may have {_mebibytes(pod_delivery.ARCHIVE_BYTES)} then"
    if framing:
        return (
            f"compressed it has more than {_mebibytes(pod_delivery.FRAMES_BYTES)}, which the pod's log takes"
        )
    return (
        f"compressed it does not fit into a termination message of {pod_delivery.MESSAGE_BYTES} bytes, and "
        "with framing=False nothing goes by the log"
    )


def _mebibytes(size: int) -> str:
    return f"{size} bytes ({size / (1 << 20):.1f} MiB)"
