"""The guides for Python run as written, from top to bottom."""

import re
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
GUIDES = [
    path
    for path in sorted((ROOT / "docs" / "guide").glob("*.md"))
    # Those for the command line are run by commands.
    if "\n```console\n" not in path.read_text(encoding="utf-8")
]
# They use the session that the tests have: a process has one, and starting one takes seconds.
SPARK_GUIDES = {"algorithms.md", "pipelines.md", "spark.md"}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_a_guide_runs_from_top_to_bottom(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    blocks = PYTHON.findall(guide.read_text(encoding="utf-8"))
    if guide.name in SPARK_GUIDES:
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)

    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(guide), "exec"), names)

    assert blocks
