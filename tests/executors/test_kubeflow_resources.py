# SPDX-License-Identifier: Apache-2.0
"""Which ``resources=`` are refused before anything is dispatched."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin import KubeflowJobLogExecutor
from covalent_joblog_plugin.executors.kubeflow_resources import quantity
from covalent_joblog_plugin.model.errors import OptionError

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"cpu": 4, "memory": "16Gi", GPU: 1},
        {"cpu": 0.5, "memory": "1e9", "ephemeral-storage": ".5G", GPU: "2"},
        {"requests": {"cpu": "100m", GPU: 1}, "limits": {"memory": "+1.5Gi", GPU: "1"}},
        {"requests": {"cpu": "500m"}, "limits": {"cpu": 0.5}},
        {"limits": {"hugepages-2Mi": "64Mi", "memory": "1Gi"}},
        {"requests": None, "claims": [{"name": "gpu"}]},
    ],
)
def test_what_a_container_can_have_is_taken(resources):
    KubeflowJobLogExecutor(resources=resources).to_dict()


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"gpu": 1}, "no resource 'gpu': did you mean 'nvidia.com/gpu'"),
        ({"requests": {"GPU": 1}}, "no resource 'GPU': did you mean"),
        ({"limits": {"mem": "1Gi"}}, "did you mean 'memory'"),
        ({"Memory": "1Gi"}, "did you mean 'memory'"),
        ({"rockets": 1}, "there are cpu, memory"),
        ({"hugepages-x": 1}, "no resource 'hugepages-x'"),
        ({"nvidia.com/": 1}, "no resource 'nvidia.com/'"),
        ({"cpu": "lots"}, "cpu='lots' is no quantity"),
        ({"memory": "16GB"}, "memory='16GB' is no quantity.*'16Gi'"),
        ({"memory": "16 Gi"}, "is no quantity"),
        ({"cpu": -1}, "is no quantity"),
        ({"cpu": True}, "is no quantity"),
        ({"cpu": None}, "is no quantity"),
        ({GPU: 0.5}, "devices are not divided"),
        ({"requests": {"cpu": 1}, "cpu": 2}, "'cpu' beside requests"),
        ({"requests": {"memory": "2Gi"}, "limits": {"memory": "2G"}}, "memory: more is requested than"),
        ({"requests": {GPU: 1}}, "must be the same"),
        ({"claims": {"name": "gpu"}}, "must be a list of dicts"),
        ({"limits": ["cpu"]}, "must be a dict"),
    ],
)
def test_what_no_container_can_have_is_refused_by_name(resources, words):
    with pytest.raises(OptionError, match=rf"^KubeflowJobLogExecutor: resources.*{words}"):
        KubeflowJobLogExecutor(resources=resources).to_dict()


@given(
    number=st.decimals(0, 10**6, places=3),
    suffix=st.sampled_from(
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
    ),
)
def test_a_number_with_a_unit_amounts_to_what_it_says(number, suffix):
    power = Decimal(1024) if suffix.endswith("i") else Decimal(1000)
    place = "num_kMGTPE".find((suffix or "_")[0].replace("K", "k")) - 3
    expected = number * power**place
    assert quantity(f"{number:f}{suffix}") == expected


@given(st.text(alphabet="0123456789.+-eEKMGimnu _", max_size=8))
def test_whatever_the_text_it_amounts_to_something_or_is_none(text):
    amount = quantity(text)
    assert amount is None or amount >= 0
    if text and text[0] in "-e _":
        assert amount is None
