"""The bulk loader of `tests.support.staged_files`, where a graph looks for one."""

from tests.support.staged_files import load

__all__ = ["load"]
