"""XML from strangers: expat without DTD, entities or external references, bounded in depth and count."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nccl_insight.base.data import dataclass, field
from nccl_insight.inputs.limits import DEFAULT, Limits

MAX_BYTES = 64 * 1024 * 1024


@dataclass
class Element:
    """An element with its attributes and children; ``line`` is 1-based."""

    name: str
    attributes: Mapping[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        """An attribute, cut to 200 characters."""
        return self.attributes.get(name, default)[:200]


def begins_with(head: bytes, tag: re.Pattern[bytes]) -> bool:
    """Whether the first bytes of a file are a document of that element, behind a declaration or comments."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:4096]
    return start[:1] == b"<" and tag.search(start) is not None


class _Stopped(Exception):
    """The document is larger or deeper than is read, or uses a feature that is not."""


def parse(data: bytes, limits: Limits = DEFAULT) -> tuple[Element | None, str]:
    """The root element as far as it could be read, and what was wrong (empty when nothing was)."""
    from xml.parsers import expat

    root: list[Element] = []
    stack: list[Element] = []
    count = 0
    parser = expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > limits.xml_elements or len(stack) >= limits.xml_depth:
            raise _Stopped(
                f"the XML has more than {limits.xml_elements:,} elements or {limits.xml_depth} levels (limits "
                "xml-elements and xml-depth); what came before was kept"
            )
        element = Element(name, attributes, parser.CurrentLineNumber)
        (stack[-1].children if stack else root).append(element)
        stack.append(element)

    def end(name: str) -> None:
        stack.pop()

    def refuse(*_: object) -> int:
        root.clear()
        raise _Stopped("the XML holds a document type or entity declaration, which is not read")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.UnparsedEntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    problem = ""
    try:
        parser.Parse(data[:MAX_BYTES], True)
    except _Stopped as error:
        problem = str(error)
    except (expat.ExpatError, ValueError, LookupError) as error:
        problem = f"the XML ends early or is damaged ({error}); what came before was kept"
    if len(data) > MAX_BYTES:
        problem = f"larger than {MAX_BYTES >> 20} MiB; the rest was not read"
    return (root[0] if root else None), problem
