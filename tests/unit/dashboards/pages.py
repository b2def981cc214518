# SPDX-License-Identifier: Apache-2.0
"""Reads a page as a browser would take it apart: its elements, their attributes and texts."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})


@dataclass
class Element:
    """One element: its tag, its attributes, and the text directly inside of it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """All elements of a page in document order; elements that were not closed are remembered."""

    elements: list[Element] = field(default_factory=list)
    unclosed: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare the parser."""
        super().__init__(convert_charrefs=True)

    @classmethod
    def of(cls, text: str) -> "Page":
        """Parse a page."""
        page = cls()
        page.feed(text)
        page.close()
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self.unclosed.append(element)

    def handle_endtag(self, tag: str) -> None:
        """Close the newest element, which must be of this tag."""
        assert self.unclosed, f"</{tag}> closes nothing"
        assert tag == self.unclosed.pop().tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        if self.unclosed:
            self.unclosed[-1].text += data

    def all(self, tag: str) -> list[Element]:
        """Return the elements of a tag."""
        return [element for element in self.elements if element.tag == tag]
