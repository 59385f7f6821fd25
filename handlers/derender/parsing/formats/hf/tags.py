r"""Values between tags, as `xml-inline` reads them.

Most tag patterns have one form: what begins a tag, a key, what is behind it, a value, and what ends it.

    <parameter=(?P<key>[^>]+)>\n?(?P<value>.*?)\n?</parameter>

Such a pattern is taken apart, so that the end of a value is looked for once. A search for the pattern itself
reads the rest of the text for each tag that has no end. All others are searched as they are, with a timeout.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from derender.parsing.patterns import regexes
from derender.parsing.patterns.parts import MAX_CAPTURED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Tag", "tag_finder"]

_LITERAL: Final = r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s])"
_SPACE: Final = r"(?:\\s\*|\\n\?)?"
_FORM: Final = re.compile(
    rf"(?P<begin>{_LITERAL}+)"
    r"\(\?P<key>(?P<character>\[\^?[^\]\\]+\]|\\w|\.)\+(?P<lazy>\??)\)"
    rf"(?P<behind>(?:{_LITERAL}|\\s\*)+?)(?P<before>{_SPACE})"
    rf"\(\?P<value>\.[*]\?\)(?P<after>{_SPACE})(?P<end>{_LITERAL}+)"
)
"""A tag pattern of the common form."""


_TRIM: Final[Mapping[str, Callable[[str], str]]] = {
    "": lambda value: value,
    r"\s*": lambda value: value.rstrip(),
    r"\n?": lambda value: value.removesuffix("\n"),
}
"""What may stand behind a value → leaves it out."""


class Tag(NamedTuple):
    """A tag, and where it is."""

    start: int
    end: int
    key: str | None
    value: str


@lru_cache
def tag_finder(pattern: str) -> Callable[[str], Iterator[Tag]]:
    """Return what finds the tags of a text.

    Raises:
        ValueError: The pattern is malformed, or has no key.
    """
    compiled = regexes.compile_regex(pattern)[0]
    if "key" not in compiled.groupindex:
        raise ValueError("tag_pattern must have a group named 'key'")
    if form := _FORM.fullmatch(pattern):
        return _common_finder(form)

    def find(text: str) -> Iterator[Tag]:
        for match in compiled.finditer(text, timeout=regexes.TIMEOUT):
            yield Tag(match.start(), match.end(), match["key"], match.groupdict("").get("value", ""))

    return find


def _common_finder(form: re.Match[str]) -> Callable[[str], Iterator[Tag]]:
    key = f"{form['character']}{{1,{MAX_CAPTURED}}}{form['lazy']}"
    begin = re.compile(f"{form['begin']}(?P<key>{key}){form['behind']}{form['before']}", re.DOTALL)
    ends = re.sub(r"\\(.)", r"\1", form["end"])
    trim = _TRIM[form["after"]]

    def find(text: str) -> Iterator[Tag]:
        place = 0
        while (match := begin.search(text, place)) and (end := text.find(ends, match.end())) >= 0:
            place = end + len(ends)
            yield Tag(match.start(), place, match["key"], trim(text[match.end() : end]))

    return find
