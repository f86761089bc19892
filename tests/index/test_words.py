"""Terms in many scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.index.words import term_hashes, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cats' countries, hoping; agreed!", ["the", "cat", "country", "hop", "agre"]),
        ("James's class is BUS 42", ["jame", "class", "is", "bus", "42"]),
        ("Café CAFE\u0301 naïve Straße ﬁne Ｆｕｌｌ", ["cafe", "cafe", "naiv", "strass", "fine", "full"]),
        ("Ёлка Άθήνα ΑΘΗΝΑ", ["елка", "αθηνα", "αθηνα"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("東 は", ["東", "は"]),
        ("GPU性能", ["gpu", "性能"]),
        ("한국어를", ["한국", "국어", "어를"]),
        ("สวัสดี", ["สว", "วั", "ัส", "สด", "ดี"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مُحَمَّد محمد", ["محمد", "محمد"]),
        ("שָׁלוֹם", ["שלום"]),
        ("🎉 — … \0 \ud800", []),
        ("snake_case x86-64", ["snak", "case", "x86", "64"]),
    ],
)
def test_terms(text, expected):
    assert terms(text) == expected


@given(st.text())
def test_any_text_has_terms_that_do_not_depend_on_case_or_surroundings(text):
    found = terms(text)
    assert all(term and term == term.strip() for term in found)
    assert terms(f" . {text} , ") == found
    assert len(term_hashes(text)) == len(found)
