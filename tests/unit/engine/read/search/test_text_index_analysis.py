"""Texts as words: a column and a query come apart in the same way."""

import pyarrow as pa
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.read.search import text_index
from omnigraph.engine.read.search.text_index import STOP_WORDS, Words, tokenize
from omnigraph.model import limits
from omnigraph.model.types import TextLanguage
from tests.support import oracle_search

# Words and separators, with letters of every width, marks, and cases that change
# the number of letters.
LETTERS = st.sampled_from(
    " _-.'\n\u0301\u2044aAzZ09theTHEsingedéßİΣ\u03c3ςйЙ日½²①ﬁ\uff21\U0001d4b3\U00010400🙂"
)
TEXTS = st.one_of(st.text(LETTERS, max_size=30), st.text(max_size=30))


LANGUAGES = st.sampled_from(TextLanguage)


def analyze(text: str, language: TextLanguage = TextLanguage.ENGLISH) -> Words:
    return text_index.analyze(text, language)


def words_by_text(texts: pa.Array, language: TextLanguage) -> list[list[tuple[str, str]]]:
    """Both forms of every word, text by text."""
    tokens = tokenize(texts, language)
    found: list[list[tuple[str, str]]] = [[] for _ in range(len(texts))]
    for text, code in zip(tokens.texts.tolist(), tokens.codes.tolist(), strict=True):
        found[text].append((tokens.words.written[code], tokens.words.stems[code]))
    return found


def words_of(text: str, language: TextLanguage) -> list[tuple[str, str]]:
    words = analyze(text, language)
    return list(zip(words.written, words.stems, strict=True))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Solar-panel_audit, 2nd (draft)", ("solar", "panel", "audit", "2nd", "draft")),
        ("o'clock e-mail", ("o", "clock", "e", "mail")),
        ("x" * 40 + " " + "y" * 41, ("x" * 40,)),
        ("the Panels ARE of THE roof", ("panels", "roof")),
        ("日本 Ελλάδα", ("日本", "ελλάδα")),
        ("", ()),
        (" .,!🙂", ()),
        ("To be, or to be", ()),
    ],
)
def test_a_text_is_its_words_in_lower_case(text: str, written: tuple[str, ...]) -> None:
    assert analyze(text).written == written


@pytest.mark.parametrize("text", ["run runs running", "panel Panels", "audit audited auditing"])
def test_forms_of_a_word_have_one_stem(text: str) -> None:
    words = analyze(text)

    assert len(set(words.stems)) == 1
    assert len(set(words.written)) > 1


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Café naïve Ångström", ("cafe", "naive", "angstrom")),
        ("straße Ærø Łódź þorn", ("strasse", "aero", "lodz", "thorn")),
        ("İstanbul ﬁne \uff21lpha x²", ("istanbul", "fine", "alpha", "x2")),
        ("Йога ½ ⑴", ("йога", "½", "⑴")),
    ],
)
def test_letters_with_an_ascii_form_are_folded(text: str, written: tuple[str, ...]) -> None:
    assert analyze(text).written == written


def test_stems_are_those_of_the_word_before_folding() -> None:
    assert analyze("résumés resumes") == Words(("resumes", "resumes"), ("resume", "resum"))


def test_a_stop_word_with_a_mark_is_a_word() -> None:
    assert analyze("thé").written == ("the",)
    assert "the" in STOP_WORDS


@given(TEXTS, LANGUAGES)
def test_a_column_and_a_query_are_tokenized_alike(text: str, language: TextLanguage) -> None:
    assert words_by_text(pa.array([text]), language) == [words_of(text, language)]


@given(TEXTS)
def test_words_end_where_letters_and_digits_end(text: str) -> None:
    spaced = "".join(letter if letter.isalnum() else " " for letter in text)
    lowered = [word.lower() for word in spaced.split()]
    expected = [
        word
        for word in lowered
        if len(word) <= limits.SEARCH_WORD_CHARACTERS_MAX and word not in STOP_WORDS
    ]

    words = analyze(text).written

    assert len(words) == len(expected)
    assert all(
        word == other for word, other in zip(words, expected, strict=True) if other.isascii()
    )


@given(st.lists(st.none() | TEXTS), LANGUAGES, st.data())
def test_a_text_is_analyzed_independently_of_other_rows(
    texts: list[str | None], language: TextLanguage, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(texts)))
    type_of_column = data.draw(st.sampled_from([pa.string(), pa.large_string()]))
    column = pa.array(["before", *texts], type_of_column).slice(1 + start)

    found = words_by_text(column, language)

    assert found == [words_of(text or "", language) for text in texts[start:]]


def test_a_column_of_many_blocks_is_one_column() -> None:
    texts = [f"word{number:036} " * 20 for number in range(12_000)]
    assert sum(map(len, texts)) > 2 * limits.SEARCH_BLOCK_BYTES

    tokens = tokenize(pa.array(texts), TextLanguage.ENGLISH)

    assert len(tokens.words.written) == len(texts)
    assert tokens.texts.tolist() == [text for text in range(len(texts)) for _ in range(20)]
    assert tokens.codes.tolist() == tokens.texts.tolist()


# Other languages


def test_every_language_has_a_stemmer() -> None:
    """Apart from the older stemmers of two languages."""
    without_stemmer = {TextLanguage.NONE, TextLanguage.NGRAM}

    stemmers = {str(each) for each in TextLanguage if each not in without_stemmer}

    assert stemmers == set(Stemmer.algorithms()) - {"porter", "dutch_porter"}


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (TextLanguage.GERMAN, "Häuser Hauses Haus"),
        (TextLanguage.FRENCH, "continuellement continuelle"),
        (TextLanguage.SPANISH, "corriendo correr"),
        (TextLanguage.RUSSIAN, "книга книги"),
    ],
)
def test_forms_of_a_word_have_one_stem_in_their_language(language: TextLanguage, text: str) -> None:
    assert len(set(analyze(text, language).stems)) == 1
    assert len(set(analyze(text, TextLanguage.NONE).stems)) > 1


@given(TEXTS, LANGUAGES)
def test_words_and_stems_are_those_of_the_oracle(text: str, language: TextLanguage) -> None:
    expected = oracle_search.words_of(text, language)

    assert words_of(text, language) == [(each.spelling, each.stem) for each in expected]


def test_only_english_has_stop_words() -> None:
    text = "the and der und le et"

    assert analyze(text).written == ("der", "und", "le", "et")
    for language in (TextLanguage.GERMAN, TextLanguage.FRENCH, TextLanguage.NONE):
        assert analyze(text, language).written == tuple(text.split())


def test_without_a_language_words_are_their_own_stems() -> None:
    words = analyze("Running THE Cafés", TextLanguage.NONE)

    assert words == Words(("running", "the", "cafes"), ("running", "the", "cafes"))


def test_marks_that_write_vowels_belong_to_words() -> None:
    assert analyze("हिन्दी", TextLanguage.NONE).written == ("हिनदी",)
    assert len(analyze("लड़कियाँ", TextLanguage.HINDI).written) == 1
    for language in (TextLanguage.NONE, TextLanguage.NGRAM):
        assert analyze("\u0301 \u093f", language).written == ()


@pytest.mark.parametrize(
    ("text", "grams"),
    [
        ("北京大学", ("北京", "京大", "大学")),
        ("parseQuery", ("par", "ars", "rse", "seq", "equ", "que", "uer", "ery")),
        ("a_b xyz", ("a", "b", "xyz")),
        ("我用git", ("我用", "git")),
        ("数", ("数",)),
        ("Ünï", ("uni",)),
        ("x" * 41, ("xxx",) * 39),
        ("", ()),
    ],
)
def test_runs_are_cut_into_grams(text: str, grams: tuple[str, ...]) -> None:
    assert analyze(text, TextLanguage.NGRAM) == Words(grams, grams)
