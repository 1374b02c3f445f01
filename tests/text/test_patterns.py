# SPDX-License-Identifier: Apache-2.0
"""A text is found as it is; an expression costs little whatever it is."""

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.text.patterns import Patterns


@pytest.mark.parametrize(
    ("query", "text", "matches"),
    [
        ("[", "a[b", True),
        ("*", "a*b", True),
        ("a.b", "axb", False),
        ("a.b", "a.b", True),
        ("Error", "error", False),
    ],
)
def test_a_text_stands_for_itself(query, text, matches):
    assert Patterns("query", [query]).match(text) is matches


@given(
    st.text(min_size=1, max_size=5).filter(lambda text: "\n" not in text),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_any_text_is_found_where_it_is(word, before, after):
    text = before + word + after
    patterns = Patterns("query", [word])
    assert patterns.match(text)
    assert [text[a:b] for a, b in patterns.found(text) if b - a == len(word)].count(word) >= text.count(
        word
    ) - 1
    assert patterns.match(before) is (word in before)


@given(st.text(alphabet="aé😀b", max_size=12))
def test_expressions_are_found_by_characters(text):
    for pattern in ("é+", "a|😀", "b[aé]*", "x*"):
        expected = [match.span() for match in re.finditer(pattern, text) if match[0]]
        assert Patterns("query", [pattern], regex=True).found(text) == expected


def test_what_overlaps_is_marked_once():
    assert Patterns("query", ["abc", "cd", "x"]).found("abcd x") == [(0, 4), (5, 6)]


def test_one_of_several_is_enough():
    assert Patterns("query", ["a+b", "c"], regex=True).match("xaab")
    assert Patterns("query", ["a+b", "c"], regex=True).match("c")
    assert not Patterns("query", ["a+b", "c"], regex=True).match("x")


@pytest.mark.parametrize(
    ("patterns", "regex", "says"),
    [
        (["["], True, "'[' is no regular expression: missing ]"),
        (["(a)\\1"], True, "is no regular expression"),
        (["(?=a)"], True, "is no regular expression"),
        (["(?:a{1000}){1000}"], True, "is no regular expression"),
        (["(?:(?:\\pL{9}){9}){9}"], True, "too large"),
        (["\ud800"], True, "is no regular expression"),
        ([""], False, "empty"),
        (["a\nb"], False, "newline"),
        (["x" * 1001], False, "too many"),
        (["x"] * 21, False, "too many"),
        ([7], False, "int is no text"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(patterns, regex, says):
    with pytest.raises(BadSelection, match=re.escape(says)) as refused:
        Patterns("exclude", patterns, regex=regex)
    assert str(refused.value).startswith("exclude: ")
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*)*x", "(?:a?){99}a{99}", "(?:.*a){9}$"]
)
@pytest.mark.parametrize("length", [40, 60_000])
def test_no_expression_takes_long(pattern, length):
    begun = time.thread_time()
    Patterns("query", [pattern], regex=True).match("a" * length + "!")
    assert time.thread_time() - begun < 2


def test_an_expression_that_takes_too_long_for_all_lines_is_given_up():
    """States that never repeat: about the worst that can be asked of RE2."""
    patterns = Patterns("query", ["(?:a|b)*a(?:a|b){300}c"], regex=True)
    source = random.Random(1)
    lines = ("".join(source.choices("ab", k=60_000)) for _ in range(1000))
    begun = time.thread_time()
    with pytest.raises(BadSelection, match="too long; make it simpler"):
        any(patterns.match(line) for line in lines)
    assert time.thread_time() - begun < 4


def test_a_plain_expression_is_never_given_up():
    patterns = Patterns("query", [r"loss: \d+\.\d+ nan|out of memory"], regex=True)
    assert not any(patterns.match(f"step {number} loss: 0.{number}") for number in range(20_000))


def test_an_expression_of_the_server_says_nothing_on_its_stderr(capfd):
    with pytest.raises(BadSelection):
        Patterns("query", ["["], regex=True)
    assert capfd.readouterr() == ("", "")
