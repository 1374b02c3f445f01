# SPDX-License-Identifier: Apache-2.0
"""Fields of a pod template by their names; which there are is told by the ``kubernetes`` package's models."""

from __future__ import annotations

import difflib
import re
from typing import Any

_TEMPLATE = re.compile(
    r"(?:podTemplateOverrides\[\d+\]|replicatedJobs\[\d+\]\.template\.spec\.template"
    r"|pytorchReplicaSpecs\.\w+\.template)\.(.+)"
)
_TRAINER = {"env": "spec.containers[0].env", "resourcesPerNode": "spec.containers[0].resources"}
"""Field of a TrainJob's ``spec.trainer`` → where it is in a pod template."""
_MODEL = re.compile(r"(V\d\w+)\]?$")


def in_template(path: str) -> str:
    """What a path in a job is within its pod template, such as ``spec.hostNetwork``; empty outside of it."""
    if found := _TEMPLATE.search(path):
        return found[1]
    head, _, rest = path.removeprefix("spec.trainer.").partition(".")
    name, _, index = head.partition("[")
    place = _TRAINER.get(name, "") if path.startswith("spec.trainer.") else ""
    return f"{place}{'[' if index else ''}{index}.{rest}" if place and rest else ""


def misspelt(path: str) -> str:
    """What is wrong with a field of which Kubernetes knows nothing; empty for one it has.

    Args:
        path: Within a pod template.
    """
    # Half a second when it is the first to import it, for a mistake's sake.
    from kubernetes.client import models  # noqa: PLC0415

    model: Any = models.V1PodTemplateSpec
    names = [word.partition("[")[0] for word in path.split(".")]
    for place, name in enumerate(names):
        fields = {there: here for here, there in model.attribute_map.items()}
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1, cutoff=0.5)
            hint = f" (did you mean {near[0]}?)" if near else ""
            where = ".".join(["pod", *names[:place]])
            return f"Kubernetes has no field {name} in {where}{hint or f', see kubectl explain {where}'}"
        found = _MODEL.search(model.openapi_types[fields[name]])
        if found is None:
            break  # a text, a number, or a mapping of one's own
        model = getattr(models, found[1])
    return ""
