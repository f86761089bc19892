"""Where a sentence ends, in any script, from punctuation alone."""

import re
from collections.abc import Iterator

_END = re.compile(
    r"(?<![.!?…؟।॥։።])[.!?…؟।॥։።]++[\"'”’»)\]]*+(?=\s)"  # an end mark counts where white space follows …
    r"|[。！？．｡]+[」』”’）〉》]*"  # … in Chinese and Japanese everywhere
    r"|\n\s*\n"  # and so does a blank line
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'“‘])(?:[^\W\d_]|(?:[^\W\d_]\.)+[^\W\d_]"  # initials: J. · e.g. · U.S.
    r"|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|cf|al|ca|approx|Fig|Figs|Eq|Eqs|No|Nos|Vol|vol|pp|Gen|Col|Lt|Sgt|Capt|Rev|Hon"
    r"|Inc|Ltd|Co|Corp|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec|bzw|z\.B|Nr|Str|Abs)\.$"
)
_LOOK_BACK_CHARS = 16


def sentence_cuts(text: str) -> Iterator[int]:
    """The offsets at which a new sentence begins, without 0; the white space between stays with the one before.

    A full stop after an abbreviation or an initial, or before a lower-case letter, ends nothing.
    """
    after = 0
    for match in _END.finditer(text):
        if match.end() <= after:
            continue
        after = match.end()
        while after < len(text) and text[after].isspace():
            after += 1
        if after == len(text):
            return
        if match[0].startswith(".") and match[0].count(".") == 1:
            if text[after].islower():
                continue
            before = text[max(0, match.start() - _LOOK_BACK_CHARS) : match.start() + 1]
            if _ABBREVIATION.search(before):
                continue
        yield after
