# SPDX-License-Identifier: Apache-2.0
"""What every file of the project keeps to."""

import re

import pytest

from tests.project.tracked import ROOT, tracked

# Brackets, so that this file does not hold what it looks for. A folder of such a name below another is fine.
MACHINE = re.compile(rb"(?<![\w}.~-])/(wor[k]|roo[t]|far[m]|opt/jl|opt/wheels)/")
REGISTRIES = re.compile(
    rb"pyp[i]\.org|pythonhoste[d]\.org|registry\.npmj[s]|crate[s]\.io|deb\.debia[n]|proxy\.golan[g]"
)
LOCK_FILES = ("uv.lock", "poetry.lock", "Pipfile.lock", "package-lock.json", "yarn.lock")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def names(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


def test_every_source_file_names_its_licence_on_top():
    sources = tracked("*.py", "*.toml", "Makefile", ".ci/*", "tools/*", "constraints.txt")
    bare = [path for path in sources if "SPDX-License-Identifier: Apache-2.0" not in path.read_text()[:200]]
    assert names(bare) == ["pyproject.toml"]  # it names the licence as a field


@pytest.mark.parametrize("words", [MACHINE, REGISTRIES], ids=["machine paths", "registry hosts"])
def test_no_file_speaks_of_where_it_was_made(words):
    found = [(path, words.search(path.read_bytes())) for path in tracked()]
    assert [f"{path.relative_to(ROOT)}: {match[0]!r}" for path, match in found if match] == []


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
