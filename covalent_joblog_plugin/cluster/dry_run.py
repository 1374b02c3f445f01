# SPDX-License-Identifier: Apache-2.0
"""Asks the API server whether it would take a job, and says which option is in its way when not.

Nothing is created. Unknown fields are dropped in silence without ``fieldValidation=Strict``; with it the
answer names every one of them, which is how served versions are told apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError, SubmissionError

from .kubernetes_errors import Conflict, Forbidden, NotFound, Refused
from .pod_fields import in_template, misspelt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .workload import Api, Workload, WorkloadSpec

STRICT = {"fieldValidation": "Strict"}
_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_INVALID = re.compile(
    r"\b((?:spec|metadata)\.[\w.\[\]/-]+): (?:Invalid|Required|Unsupported|Too|Duplicate|Forbidden)"
)
_VALUE = re.compile(r"Invalid value: [\[{](?:.*[\]}]: |.*)", re.DOTALL)
_OTHER_CONTAINER = re.compile(r"ontainers\[[1-9]")
_LIMIT = 400
"""Characters of the API server's answer that an error text shows."""
_OPTIONS = {
    "priorityClassName": "priority_class",
    "terminationGracePeriodSeconds": "termination_grace",
    "serviceAccountName": "service_account",
    "imagePullSecrets": "image_pull_secrets",
    "nodeSelector": "node_selector",
    "tolerations": "tolerations",
    "volumeMounts": "volume_mounts",
    "volumes": "volumes",
    "resourcesPerNode": "resources",
    "resources": "resources",
    "activeDeadlineSeconds": "active_deadline",
    "numNodes": "num_nodes",
    "replicas": "num_nodes",
    "env": "environment",
    "image": "image",
    "annotations": "pod_annotations",
    "labels": "pod_labels",
}


class UnknownFields(Exception):  # noqa: N818 - a finding of this package's own, never seen outside of it
    """The served version does not know fields of the manifest; ``fields`` are their paths."""

    def __init__(self, fields: Sequence[str]) -> None:
        super().__init__(", ".join(fields))
        self.fields = tuple(fields)


async def dry_run(api: Api, kind: Workload, spec: WorkloadSpec, manifest: dict[str, Any]) -> None:
    """Ask whether the job would be taken; that there is one of its name already is no reason against it.

    Raises:
        UnknownFields: The served version lacks fields of it.
        OptionError: The value of an option is refused.
        SubmissionError: It is refused for another reason.
        TransportError: The cluster cannot be reached.
    """
    try:
        await api.request("POST", kind.path(spec.namespace), query={"dryRun": "All", **STRICT}, body=manifest)
    except Conflict:
        return
    except NotFound as error:
        raise SubmissionError(_not_served(kind, spec, str(error))) from error
    except (Forbidden, Refused) as error:
        if fields := _UNKNOWN.findall(str(error)):
            raise UnknownFields(fields) from error
        raise _refusal(kind, spec, str(error)) from error


def _not_served(kind: Workload, spec: WorkloadSpec, text: str) -> str:
    if 'namespaces "' in text:
        return f"namespace {spec.namespace} does not exist: set namespace= to one of yours ({text})"
    api = f"{kind.group}/{kind.version}"
    return f"this cluster has no {kind.kind}s ({api}): ask for Kubeflow to be installed, or use another kind="


def _refusal(kind: Workload, spec: WorkloadSpec, text: str) -> OptionError | SubmissionError:
    # Values the API server repeats may be long, or nobody's business.
    short = _VALUE.sub("", text)
    short = short if len(short) <= _LIMIT else f"{short[:_LIMIT]} …"
    found = _INVALID.search(text)
    # A webhook that cannot read the object names no field.
    path = found.group(1) if found else "resources" if "quantities must match" in text else ""
    option = option_of(path, spec)
    if option:
        return OptionError(f"{option}: the cluster refuses it: {short}; nothing was submitted")
    return SubmissionError(f"{kind.kind} {spec.name} would be refused, so it was not submitted: {short}")


def option_of(path: str, spec: WorkloadSpec) -> str:
    """The option that put a value where ``path`` says, or ``pod_patch``; empty where none did."""
    if path.startswith("metadata."):
        return ""
    if not _OTHER_CONTAINER.search(path):
        for word in re.findall(r"\w+", path):
            option = _OPTIONS.get(word)
            if option and getattr(spec, option) not in (None, "", (), [], {}):
                return option
    return "pod_patch" if spec.pod_patch and "template" in path.lower() else ""


def unknown_options(
    spec: WorkloadSpec, fields: Sequence[str], not_taken: Callable[[str, str], str]
) -> OptionError:
    """What to say of options the served version has no field for.

    Args:
        spec: The job.
        fields: Paths of the fields.
        not_taken: Says of a field that Kubernetes has, by its path in the job and in the pod template, why
            the job cannot have it, and what to do.
    """
    told: dict[str, None] = {}
    for field in fields:
        inside = in_template(field)
        text = (misspelt(inside) if inside else "") or not_taken(field, inside)
        # The same template may stand in a manifest more than once.
        told[f"{_unknown_option(field, spec) or 'the job'}: {text}"] = None
    return OptionError(f"{'; '.join(sorted(told))}; nothing was submitted")


def _unknown_option(path: str, spec: WorkloadSpec) -> str:
    """The option in which there is a field of that name: what we write ourselves has none that is unknown."""
    leaf = path.rpartition(".")[2].partition("[")[0]
    option = option_of(path, spec)
    if _has(spec.pod_patch, leaf) and not _has(getattr(spec, option, None), leaf):
        return "pod_patch"
    return option


def _has(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_has(inner, key) for inner in value.values())
    return isinstance(value, (list, tuple)) and any(_has(inner, key) for inner in value)
