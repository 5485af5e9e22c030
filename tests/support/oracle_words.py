"""The tables of the oracle's text search: words that say nothing, letters and their ASCII.

Written down a second time, so that a word that goes missing in the engine is missed here.
"""

import unicodedata

STOP_WORDS = frozenset(
    [
        *("a", "about", "above", "after", "again", "against", "all", "am", "an", "and", "any"),
        *("are", "as", "at", "be", "because", "been", "before", "being", "below", "between"),
        *("both", "but", "by", "can", "did", "do", "does", "doing", "down", "during", "each"),
        *("few", "for", "from", "further", "had", "has", "have", "having", "he", "her", "here"),
        *("hers", "herself", "him", "himself", "his", "how", "i", "if", "in", "into", "is", "it"),
        *("its", "itself", "just", "me", "more", "most", "my", "myself", "now", "of", "off"),
        *("on", "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own"),
        *("same", "she", "should", "so", "some", "such", "than", "that", "the", "their"),
        *("theirs", "them", "themselves", "then", "there", "these", "they", "this", "those"),
        *("through", "to", "too", "under", "until", "up", "very", "was", "we", "were", "what"),
        *("when", "where", "which", "while", "who", "whom", "why", "will", "with", "you"),
        *("your", "yours", "yourself", "yourselves"),
    ]
)

# Unicode does not take these apart.
_PLAIN_BY_LETTER = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i",
    "ł": "l", "ŋ": "n", "þ": "th", "ŧ": "t",
}  # fmt: skip


def fold_to_ascii(word: str) -> str:
    """The word with every letter that has an ASCII form replaced by it."""
    return "".join(map(_fold, word))


def _fold(letter: str) -> str:
    if letter.isascii() or letter in _PLAIN_BY_LETTER:
        return _PLAIN_BY_LETTER.get(letter, letter)
    if unicodedata.combining(letter):
        return ""
    parts = unicodedata.normalize("NFKD", letter)
    plain = "".join(part for part in parts if not unicodedata.combining(part)).lower()
    return plain if plain.isascii() and plain.isalnum() else letter
