"""Every read of the corpus binds what it uses, once and before it uses it."""

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.compiler.compile import compile_queries
from omnigraph.compiler.ir import Direction, Expand, Filter, NodeScan, ReadIR, SameEntity
from omnigraph.errors import CompileError
from omnigraph.model.source import Source
from tests.support.corpus import corpus_id, corpus_paths, read_corpus_file
from tests.support.pipelines import find_faults
from tests.support.queries import compile_text, query, read_schema
from tests.support.schemas import compile_text as compile_schema_text


@pytest.mark.parametrize("path", corpus_paths("query/*/*.gq"), ids=corpus_id)
def test_a_pipeline_binds_what_it_uses(path: Path) -> None:
    file = read_corpus_file(path)
    catalog = compile_schema_text(read_schema(path.parent.name))
    try:
        queries = compile_queries(Source(file.name, file.source), catalog)
    except CompileError:
        return

    faults = [fault for q in queries if isinstance(q.ir, ReadIR) for fault in find_faults(q.ir)]

    assert faults == []


def test_a_pipeline_that_does_not_is_found_out() -> None:
    text = query("match { $p: Pilot } return { $p.handle } order { $p.hours }")
    ir = compile_text(read_schema("fleet"), text).ir
    assert isinstance(ir, ReadIR)
    broken = (
        Expand("p", "q", "Mentors", Direction.OUT, "Pilot", 1, 1, (), "w"),
        NodeScan("q", "Pilot", ()),
        Filter(SameEntity("q", "r")),
    )

    assert set(find_faults(replace(ir, pipeline=broken))) == {
        "an expansion starts at $p",
        "$q is bound again",
        "a filter looks at $r",
        "column p.handle uses $p",
        "the order uses $p",
    }
