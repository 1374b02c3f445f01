# SPDX-License-Identifier: Apache-2.0
"""The archive form, written without Covalent, is Covalent's own."""

from __future__ import annotations

import base64
import hashlib
import io
import math

from covalent._workflow.transportable_object import TransportableObject
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.payload.job.result import Base64File, write_archive

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner) | st.tuples(inner, inner),
)


def archived(value):
    file = io.BytesIO()
    written = write_archive(file, value)
    assert written == {
        "size": len(file.getvalue()),
        "sha256": hashlib.sha256(file.getvalue()).hexdigest(),
    }
    return file.getvalue()


@given(VALUES)
def test_it_is_byte_for_byte_what_covalent_writes(value):
    assert archived(value) == TransportableObject(value).serialize()


@given(VALUES)
def test_covalent_reads_it_back(value):
    read = TransportableObject.deserialize(archived(value))

    assert read == TransportableObject(value)
    assert read.get_deserialized() == value


def test_functions_and_modules_keep_name_and_doc():
    def documented():
        """What it does."""

    for value in (documented, lambda: 1, math, dict, [1], None):
        assert archived(value) == TransportableObject(value).serialize()


@given(st.lists(st.binary(max_size=70)), st.integers(0, 3))
def test_any_split_of_a_pickle_gives_the_same_base64(pieces, kind):
    wrap = (bytes, bytearray, memoryview, lambda piece: memoryview(bytearray(piece)))[kind]
    file = io.BytesIO()
    target = Base64File(file)

    for piece in pieces:
        target.write(wrap(piece))
    target.end()

    assert file.getvalue() == base64.b64encode(b"".join(pieces))
    assert target.hash.digest() == hashlib.sha256(file.getvalue()).digest()


def test_pieces_longer_than_a_step_join_without_padding():
    data = bytes(range(251)) * 10_000
    file = io.BytesIO()
    target = Base64File(file)

    target.write(data)
    target.end()

    assert file.getvalue() == base64.b64encode(data)
