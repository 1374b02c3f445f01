# SPDX-License-Identifier: Apache-2.0
"""What every file of the project keeps to."""

import re

import pytest

from tests.project.tracked import ROOT, tracked

# In two pieces each, so that this file does not hold what it looks for.
MACHINE = ("/wo" + "rk/", "/ro" + "ot/", "/fa" + "rm/", "/opt/" + "jl", "/opt/" + "wheels")
REGISTRIES = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "registry.npm" + "js",
    "crates" + ".io",
    "deb." + "debian",
)
LOCK_FILES = ("uv.lock", "poetry.lock", "Pipfile.lock", "package-lock.json", "yarn.lock")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def names(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


def test_every_source_file_names_its_licence_on_top():
    sources = tracked("*.py", "*.toml", "Makefile", ".ci/*", "tools/*", "constraints.txt")
    bare = [path for path in sources if "SPDX-License-Identifier: Apache-2.0" not in path.read_text()[:200]]
    assert names(bare) == ["pyproject.toml"]  # it names the licence as a field


def test_no_python_file_is_longer_than_a_reader_can_hold():
    long = [path for path in tracked("*.py") if len(path.read_text().splitlines()) > 300]
    assert names(long) == []


@pytest.mark.parametrize("words", [MACHINE, REGISTRIES], ids=["machine paths", "registry hosts"])
def test_no_file_speaks_of_where_it_was_made(words):
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in tracked()
        for word in words
        if word.encode() in path.read_bytes()
    ]
    assert found == []


def test_no_lock_file_with_download_addresses_is_committed():
    assert [path for path in tracked() if path.name in LOCK_FILES] == []


def test_relative_links_of_documents_lead_somewhere():
    broken = [
        f"{document.relative_to(ROOT)}: {link}"
        for document in tracked("*.md")
        for link in LINK.findall(document.read_text())
        if "://" not in link and not link.startswith("#")
        if not (document.parent / link.partition("#")[0]).exists()
    ]
    assert broken == []
