"""The bounds of pictures, each with the reason for its size."""

PICTURE_NAME_CHARACTERS_MAX = 48
"""Most of a name that a picture of a history shows: longer ones would push the others out."""

PICTURE_COMMITS_MAX = 200
"""Commits that a picture of a history shows unless it is asked for more: some screens of them."""
