"""Source code ▸ its definitions, found from their first lines and indentation; no language is parsed."""

import re
from collections.abc import Iterable, Iterator

from precog.text.document import MAX_BLOCK_CHARS, Draft

_MAX_SIGNATURE_CHARS = 400
_DEFINITION = re.compile(
    r"[ \t]*(?:"
    r"(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|internal|static|final|abstract|async|unsafe|"
    r"const|virtual|override|inline|extern|sealed|open|data|partial|declare)[ \t]+)*"
    r"(?:def|class|fn|func|function\*?|fun|sub|proc|struct|enum|union|trait|impl|interface|module|namespace|object|"
    r"record|protocol|extension|macro_rules!|type)\b[ \t]*[\w(<*\"']"
    r"|(?:export[ \t]+)?(?:const|let|var)[ \t]+\w+[ \t]*=[ \t]*(?:async[ \t]*)?"
    r"(?:function\b|\([^)]*\)[ \t]*=>|\w+[ \t]*=>)"
    r"|(?:create|CREATE)[ \t]+(?:or[ \t]+replace[ \t]+|OR[ \t]+REPLACE[ \t]+)?"
    r"(?:table|view|function|procedure|TABLE|VIEW|FUNCTION|PROCEDURE)\b"
    r")"
)
_C_SIGNATURE = re.compile(r"[A-Za-z_][\w:<>,*&~\s\[\]]*")
_C_STATEMENTS = frozenset({"if", "for", "while", "switch", "return", "else", "do", "case", "goto", "throw", "await"})
_PREFACE = re.compile(r"[ \t]*(?:@|#(?!include|define|if|endif|else|pragma)|//|/\*|\*|--|;;|\[|template\b)")


def code(lines: Iterable[str]) -> Iterator[Draft]:
    """Groups lines into definitions; every line is kept.

    A definition owns the comments and decorators right above it. One inside another (a method) is a block of its own,
    `inside` the first lines of those that enclose it.
    """
    parts: list[str] = []
    preface: list[str] = []
    num_chars = 0
    enclosing: list[tuple[int, str]] = []
    inside: tuple[str, ...] = ()
    for line in lines:
        if line.isspace():
            parts.extend(preface)
            preface = []
            parts.append(line)
        elif _DEFINITION.match(line[:_MAX_SIGNATURE_CHARS]) or _is_c_function(line):
            if parts:
                yield Draft("".join(parts), kind="code", inside=inside)
            indent = _indent(line)
            enclosing = [entry for entry in enclosing if entry[0] < indent]
            inside = tuple(first_line for _, first_line in enclosing)
            enclosing.append((indent, line.strip().rstrip("{").strip()[:200]))
            parts = [*preface, line]
            preface = []
            num_chars = sum(map(len, parts))
            continue
        elif _PREFACE.match(line):
            preface.append(line)
        else:
            parts.extend(preface)
            preface = []
            parts.append(line)
        num_chars += len(line)
        if num_chars >= MAX_BLOCK_CHARS:
            yield Draft("".join([*parts, *preface]), kind="code", inside=inside)
            parts, preface, num_chars = [], [], 0
    if parts or preface:
        yield Draft("".join([*parts, *preface]), kind="code", inside=inside)


def _is_c_function(line: str) -> bool:
    """Whether a line has a return type and a name at the margin, parentheses, and no semicolon at its end."""
    signature, parenthesis, _ = line[:_MAX_SIGNATURE_CHARS].partition("(")
    words = signature.replace("*", " ").replace("&", " ").split()
    return (
        bool(parenthesis)
        and len(words) > 1
        and words[0] not in _C_STATEMENTS
        and _C_SIGNATURE.fullmatch(signature) is not None
        and not line.rstrip().endswith((";", ","))
    )


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
