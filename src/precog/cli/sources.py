"""How a retrieved chunk looks on a terminal."""

from precog.cli.output import out, shown
from precog.corpus.search import Found

_SNIPPET_CHARS = 240


def print_source(number: int, found: Found, answer: tuple[int, int] | None = None, *, use: str = "") -> None:
    """Document, page, characters and score of a chunk, and some of its text.

    Args:
        number: 1-based.
        found: the chunk.
        answer: characters of the document that are the answer; shown in bold where they are in this chunk.
        use: what became of it, such as "injected".
    """
    info = found.chunk.info
    page = f", page {info.page}" if info.page is not None else ""
    span = answer or info.span
    place = f"{found.chunk.source}{page}, characters {span[0]}–{span[1]}"
    used = f", {use}" if use else ""
    out.print(f"[bold cyan]{number}[/] {shown(place)}  [dim]score {found.hit.score:.3f}{used}[/]")
    out.print(f"   {_snippet(info.text, info.span[0], answer)}")


def _snippet(text: str, offset: int, answer: tuple[int, int] | None) -> str:
    if answer is None or not (offset <= answer[0] < answer[1] <= offset + len(text)):
        cut = text[:_SNIPPET_CHARS]
        return _one_line(cut) + (" …" if len(text) > len(cut) else "")
    start, end = answer[0] - offset, answer[1] - offset
    room = max(0, _SNIPPET_CHARS - (end - start)) // 2
    first, last = max(0, start - room), min(len(text), end + room)
    before = ("… " if first else "") + _one_line(text[first:start])
    after = _one_line(text[end:last]) + (" …" if last < len(text) else "")
    return f"{before}[bold green]{_one_line(text[start:end])}[/]{after}"


def _one_line(text: str) -> str:
    return shown(" ".join(text.split("\n")))
