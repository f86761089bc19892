"""HTML ▸ the headings, paragraphs, tables and code of the main text, found by trafilatura."""

import logging
import warnings
from collections.abc import Iterable, Iterator

from lxml import etree
from lxml import html as lxml_html
from lxml.etree import _Element
from trafilatura import bare_extraction, load_html

from precog.errors import DocumentError
from precog.text.document import Draft
from precog.text.loaders.table import table

# Both report every oddity of a page; what a reader must know is raised here.
for _name in ("trafilatura", "htmldate", "justext", "courlan"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

_MAX_CHARS = 64 << 20
_MIN_SHARE = 0.2
_KEPT_DEPTH = 254  # the parser drops everything from the first element inside 255 others to the end of the page
_SILENT = ("script", "style", "noscript", "template", "head", "svg", "iframe", "object", "nav", "form", "button")
_INLINE = frozenset({"hi", "ref", "lb", "del", "graphic", "ab"})
_LEVELS = {f"h{level}": level for level in range(1, 7)}


def html(lines: Iterable[str]) -> Iterator[Draft]:
    """Reads a web page; where no main text is found or most would be lost, all its visible text is taken.

    Raises:
        DocumentError: it is larger than 64 M characters, nested deeper than the parser keeps, or no HTML.
    """
    parts = []
    num_chars = 0
    for line in lines:
        num_chars += len(line)
        if num_chars > _MAX_CHARS:
            raise DocumentError("it is too large a web page", expected="at most 64 M characters", hint="split it")
        parts.append(line)
    page = "".join(parts)
    del parts
    if not page.strip():
        return
    body, title, visible = _parse(page)
    drafts = list(_drafts(body)) if body is not None else []
    if sum(len(draft.text) for draft in drafts) < _MIN_SHARE * sum(map(len, visible)):
        drafts = [Draft(text + "\n\n") for text in visible]
    if title and drafts and not any(draft.kind == "heading" and draft.level == 1 for draft in drafts):
        yield Draft(title + "\n\n", kind="heading", level=1, title=title)
    yield from drafts


def _parse(page: str) -> tuple[_Element | None, str, list[str]]:
    """Main text, title, and the visible paragraphs of the whole page."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = load_html(page)
            if tree is None:
                return None, "", [" ".join(page.split())]
            if _depth(tree) > _KEPT_DEPTH:
                raise DocumentError("it is HTML nested too deeply", expected=f"at most {_KEPT_DEPTH} elements deep")
            title = " ".join((tree.findtext(".//title") or "").split())
            visible = _visible(tree)
            found = bare_extraction(tree, favor_recall=True, include_tables=True, include_comments=False, as_dict=False)
    except DocumentError:
        raise
    except Exception as error:  # a damaged page can raise anything from inside the parsers
        raise DocumentError("it is damaged HTML", given=" ".join(str(error).split())[:200]) from error
    return getattr(found, "body", None), title, visible


def _depth(tree: _Element) -> int:
    depth = deepest = 0
    for event, _ in etree.iterwalk(tree, events=("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
    return deepest


def _visible(tree: _Element) -> list[str]:
    copy = lxml_html.fromstring(lxml_html.tostring(tree, encoding="unicode"))
    etree.strip_elements(copy, *_SILENT, etree.Comment, with_tail=False)
    for element in copy.iter("p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "table"):
        element.tail = "\n" + (element.tail or "")
        element.text = "\n" + (element.text or "")
    lines = (" ".join(line.split()) for line in copy.text_content().splitlines())
    return [line for line in lines if line]


def _drafts(element: _Element) -> Iterator[Draft]:
    loose: list[str] = [element.text or ""]

    def flush() -> Iterator[Draft]:
        text = " ".join("".join(loose).split())
        loose.clear()
        if text:
            yield Draft(text + "\n\n")

    for child in element:
        if not isinstance(child.tag, str):
            loose.append(child.tail or "")
            continue
        if child.tag in _INLINE:
            loose.append(_text_of(child) + (child.tail or ""))
            continue
        yield from flush()
        yield from _block(child)
        loose.append(child.tail or "")
    yield from flush()


def _block(element: _Element) -> Iterator[Draft]:
    text = _text_of(element)
    words = " ".join(text.split())
    if element.tag == "table":
        yield from table([_text_of(cell) for cell in row.iter("cell")] for row in element.iter("row"))
    elif element.tag == "head" and words:
        yield Draft(words + "\n\n", kind="heading", level=_LEVELS.get(element.get("rend", ""), 2), title=words)
    elif element.tag == "code" and words:
        yield Draft(text.strip("\n") + "\n\n", kind="code")
    elif element.tag == "list":
        if lines := "".join(_items(element, 0)):
            yield Draft(lines + "\n")
    elif element.tag in ("p", "item") and element.find(".//table") is None and element.find(".//list") is None:
        if words:
            yield Draft(words + "\n\n")
    else:
        yield from _drafts(element)


def _items(element: _Element, depth: int) -> Iterator[str]:
    """The lines of a list; a list inside an item is indented below it."""
    for item in element:
        inner = [item] if item.tag == "list" else item.findall("list")
        words = "" if item.tag == "list" else " ".join(_text_of(item, without="list").split())
        if words:
            yield f"{'  ' * depth}- {words}\n"
        for nested in inner:
            yield from _items(nested, depth + 1)


def _text_of(element: _Element, without: str = "") -> str:
    """All text in an element, leaving out the elements of one tag right below it."""
    parts = [element.text or ""]
    for child in element:
        if child.tag == "lb":
            parts.append("\n")
        elif isinstance(child.tag, str) and child.tag != without:
            if child.tag in ("p", "item", "cell", "list", "row"):
                parts.append(" ")
            parts.append(_text_of(child))
        parts.append(child.tail or "")
    return "".join(parts)
