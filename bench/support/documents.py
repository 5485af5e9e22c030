"""A generated library: documents with a text and a vector, their authors, and search requests.

Word frequencies are skewed as in natural language. Vectors are clustered around the centre of a
subject, and each request is near a centre, so that every request has relevant documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DOCUMENTS = 50_000
AUTHORS = 2_000
DIMENSION = 128
SCHEMA = """
node Author { name: String @key  country: String }
node Document {
  title: String @key
  text: String @index
  year: I32
  vector: Vector(128) @index
}
edge WrittenBy: Document -> Author
"""

_VOCABULARY = 20_000
_SKEW = 1.1
_COUNTRIES = 8
_SUBJECTS = 200
_YEARS = (1990, 2026)


@dataclass(frozen=True, slots=True)
class Request:
    """A search for words and a vector in the documents of a country since a year."""

    words: str
    vector: npt.NDArray[np.float32]
    country: str
    year: int


@dataclass(frozen=True, slots=True)
class Library:
    """The rows of every type, some columns of the documents, and requests."""

    rows: dict[str, pa.Table]
    titles: list[str]
    texts: list[str]
    vectors: npt.NDArray[np.float32]
    years: npt.NDArray[np.int64]
    countries: npt.NDArray[np.str_]
    requests: tuple[Request, ...]


def make_library(request_count: int) -> Library:
    """Generate the library and its requests; every call returns the same rows."""
    random = np.random.default_rng(11)
    titles = [f"document-{number:05}" for number in range(DOCUMENTS)]
    names = np.array([f"author-{number:04}" for number in range(AUTHORS)])
    author_country = _country(random.integers(0, _COUNTRIES, AUTHORS))
    written_by = random.integers(0, AUTHORS, DOCUMENTS)
    vectors, centres = _make_vectors(random)
    years = random.integers(*_YEARS, DOCUMENTS)
    vocabulary, texts = _make_texts(random)
    rows = {
        "Author": pa.table({"name": names, "country": author_country}),
        "Document": pa.table(
            {
                "title": titles,
                "text": texts,
                "year": pa.array(years, pa.int32()),
                "vector": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), DIMENSION),
            }
        ),
        "WrittenBy": pa.table({"src": titles, "dst": names[written_by]}),
    }
    requests = tuple(_make_request(random, vocabulary, centres) for _ in range(request_count))
    countries = author_country[written_by]
    return Library(rows, titles, texts, vectors, years, countries, requests)


def _make_vectors(
    random: np.random.Generator,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    centres = random.normal(size=(_SUBJECTS, DIMENSION))
    subjects = random.integers(0, _SUBJECTS, DOCUMENTS)
    vectors = centres[subjects] + 0.5 * random.normal(size=(DOCUMENTS, DIMENSION))
    return vectors.astype(np.float32), centres.astype(np.float32)


def _make_texts(random: np.random.Generator) -> tuple[list[str], list[str]]:
    syllables = np.array([a + b for a in "bdfgklmnprstvz" for b in "aeiou"])
    parts = syllables[random.integers(0, len(syllables), (_VOCABULARY, 4))]
    vocabulary = ["".join(each) for each in parts]
    shares = 1.0 / np.arange(1, _VOCABULARY + 1) ** _SKEW
    lengths = random.integers(30, 71, DOCUMENTS)
    drawn = random.choice(_VOCABULARY, int(lengths.sum()), p=shares / shares.sum())
    words = np.array(vocabulary)[drawn]
    ends = np.cumsum(lengths)
    return vocabulary, [" ".join(part) for part in np.split(words, ends[:-1])]


def _make_request(
    random: np.random.Generator, vocabulary: list[str], centres: npt.NDArray[np.float32]
) -> Request:
    # Words that are neither very frequent nor very rare.
    words = [vocabulary[number] for number in random.integers(20, 2_000, 4)]
    near = centres[random.integers(0, _SUBJECTS)] + 0.3 * random.normal(size=DIMENSION)
    country = f"country-{random.integers(0, _COUNTRIES)}"
    return Request(" ".join(words), near.astype(np.float32), country, 2000)


def _country(number: npt.NDArray[np.int64]) -> npt.NDArray[np.str_]:
    return np.array([f"country-{each}" for each in range(_COUNTRIES)])[number]
