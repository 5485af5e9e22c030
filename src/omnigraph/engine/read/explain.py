"""EXPLAIN: a plan as text, with the access path of each step, the reason for it, and row estimates.

Explaining runs nothing and reads no rows; a query that was run and profiled is shown with its
measurements. Access paths follow from the row counts of the snapshot and the
current contents of the read cache. Estimates are rough on purpose: they explain a choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    NodeScan,
    NullTest,
    PropertyValue,
    SameEntity,
    TextMatch,
)
from omnigraph.compiler.ir_text import (
    render_condition,
    render_output,
    render_signature,
    render_walk,
)
from omnigraph.engine.read.budget import Measurement, Profile
from omnigraph.engine.read.cache import Sources
from omnigraph.engine.read.expand import Expander
from omnigraph.engine.read.filter import can_push_down
from omnigraph.engine.read.plan import (
    AntiStep,
    ExpandStep,
    FilterStep,
    OptionalStep,
    Plan,
    ScanStep,
    Step,
    cap_hops,
    references_of,
)
from omnigraph.engine.read.table_scan import TableScan, find_table_scan, is_worthwhile
from omnigraph.model.catalog import TypeKind
from omnigraph.model.errors import plural

_STEP = "  "

_STEP_TOOK = "actual:"
_RESULT = "result:"
_MEASURED = frozenset({_STEP_TOOK, _RESULT})
"""Lines to complete with a measurement; every other line has more words."""

_SHARES = {Comparator.EQ: 0.05, Comparator.IN: 0.1, Comparator.NE: 0.9}
"""The assumed selectivity of a comparison, because there are no statistics."""
_SHARE = 0.33


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains plans over one snapshot."""

    sources: Sources
    expander: Expander

    def explain(self, plan: Plan) -> str:
        """The plan as text."""
        return "\n".join(each for each in self.lines(plan) if each.lstrip() not in _MEASURED)

    def lines(self, plan: Plan) -> list[str]:
        """The plan as indented lines, with a line for the measurement of each step."""
        lines = [render_signature(plan.ir)]
        scan = find_table_scan(plan, self.sources.catalog)
        if scan is not None and is_worthwhile(scan, self.sources):
            lines += _indent(self._table_lines(scan))
        else:
            lines += _indent(self._lines(plan.steps, [1.0]))
        lines += _indent(render_output(plan.ir))
        return [*lines, f"{_STEP}{_RESULT}"]

    def _lines(self, steps: Sequence[Step], rows: list[float]) -> Iterator[str]:
        """The lines of steps; updates `rows`, a list of one number: the estimated rows so far."""
        for step in steps:
            match step:
                case ScanStep(scan):
                    yield from self._scan_lines(scan, rows)
                    yield f"{_STEP}{_STEP_TOOK}"
                case ExpandStep():
                    yield from self._expand_lines(step, rows)
                    yield from _indent(_weight_lines(step))
                    yield f"{_STEP}{_STEP_TOOK}"
                case FilterStep(condition):
                    rows[0] *= _share_of(condition)
                    yield f"filter {render_condition(condition)}  (about {_rows(rows[0])})"
                    yield f"{_STEP}{_STEP_TOOK}"
                case AntiStep(outer, inner):
                    yield f"keep rows without a match, joined on {_names(outer)}"
                    yield f"{_STEP}{_STEP_TOOK}"
                    yield from _indent(self._lines(inner, [rows[0]]))
                    rows[0] *= 0.5
                case OptionalStep(outer, inner):
                    yield f"join matches if there are any, on {_names(outer)}"
                    yield f"{_STEP}{_STEP_TOOK}"
                    inside = [rows[0]]
                    yield from _indent(self._lines(inner, inside))
                    rows[0] = max(rows[0], inside[0])

    def _table_lines(self, scan: TableScan) -> Iterator[str]:
        is_edge = scan.kind is TypeKind.EDGE
        entry_of = self.sources.edge_entry if is_edge else self.sources.node_entry
        size = entry_of(scan.type_name).row_count
        found = size * share_of_all(scan.conditions)
        about = f"about {_count(found)} of {size:,} {plural(size, scan.kind.value)}"
        yield f"scan ${scan.variable}: {scan.type_name}  ({about})"
        yield from _indent(f"where {render_condition(each)}" for each in scan.conditions)
        names = ", ".join(f"${scan.variable}.{name}" for name in scan.properties)
        yield (
            f"{_STEP}in batches: distinct values of {names} are counted"
            if names
            else (f"{_STEP}counted without reading properties")
        )
        yield f"{_STEP}{_STEP_TOOK}"

    def _scan_lines(self, scan: NodeScan, rows: list[float]) -> Iterator[str]:
        size = self.sources.node_entry(scan.type_name).row_count
        found = size * share_of_all(scan.filters)
        rows[0] *= found
        about = f"about {_count(found)} of {size:,} {plural(size, 'node')}"
        yield f"scan ${scan.variable}: {scan.type_name}  ({about})"
        pushed = [each for each in scan.filters if can_push_down(each)]
        yield from _indent(f"where {render_condition(each)}" for each in scan.filters)
        if not scan.filters:
            yield f"{_STEP}every node; properties are read when needed"
        elif not pushed:
            yield f"{_STEP}text conditions, evaluated for all nodes in memory"
        elif self._is_cached(scan, pushed):
            yield f"{_STEP}in memory: the columns were read before or are few"
        else:
            yield f"{_STEP}by Lance: the filter is pushed down, indexes are used"

    def _is_cached(self, scan: NodeScan, pushed: Sequence[Condition]) -> bool:
        table = self.sources.nodes(scan.type_name)
        return table.is_cached(
            reference.property for condition in pushed for reference in _properties(condition)
        )

    def _expand_lines(self, step: ExpandStep, rows: list[float]) -> Iterator[str]:
        expand = cap_hops(step.expand, self.sources.catalog)
        declared = self.sources.catalog.edges[expand.edge_type]
        edges = self.sources.edge_entry(expand.edge_type).row_count
        nodes = self.sources.node_entry(declared.source).row_count
        access = self.expander.choose(expand, frontier=int(min(rows[0], nodes)))
        degree = edges / max(nodes, 1)
        reach = sum(degree**hop for hop in range(expand.hops_min, expand.hops_max + 1))
        rows[0] *= reach * share_of_all((*expand.filters, *step.edge_filters))
        yield f"expand {render_walk(step.expand)}  (about {_rows(rows[0])})"
        yield from _indent(
            f"where {render_condition(each)}" for each in (*expand.filters, *step.edge_filters)
        )
        yield f"{_STEP}{access.path}: {access.reason}"


def fill_in(lines: Iterable[str], profile: Profile, *, shows_reads: bool) -> str:
    """The lines of a plan as text, with the measurements of a run of it.

    The first measurement is that of the planning, and the last that of the result. Without
    `shows_reads` only rows and times are shown.
    """
    planning, *measurements = profile.measurements
    remaining = iter(measurements)
    shown = []
    for line in lines:
        text = line.lstrip()
        if text not in _MEASURED:
            shown.append(line)
            continue
        measured = next(remaining)
        indent = line.removesuffix(text)
        count = f"{measured.rows:,} {plural(measured.rows, 'row')}"
        shown.append(f"{indent}{text} {count} in {_took(measured, shows_reads=shows_reads)}")
    shown.append(f"planning: {_took(planning, shows_reads=shows_reads)}")
    return "\n".join(shown)


def _took(measured: Measurement, *, shows_reads: bool) -> str:
    time = f"{measured.seconds * 1000:,.2f} ms"
    if not shows_reads:
        return time
    words = [time] if measured.path is None else [time, measured.path]
    if measured.accesses:
        size, accesses = measured.bytes_read, " and ".join(sorted(measured.accesses))
        words.append(f"{size:,} {plural(size, 'byte')} read by {accesses}")
    else:
        words.append("nothing read from storage")
    return ", ".join(words)


def _weight_lines(step: ExpandStep) -> Iterator[str]:
    if step.edge_filters:
        return
    if not {step.expand.target, step.expand.edge_binding} & step.live:
        yield f"${step.expand.target} is not needed later: matches are counted, not listed"


def share_of_all(conditions: Iterable[Condition]) -> float:
    """The estimated share of rows that meet all conditions."""
    share = 1.0
    for condition in conditions:
        share *= _share_of(condition)
    return share


def _share_of(condition: Condition) -> float:
    match condition:
        case Comparison(comparator=comparator):
            return _SHARES.get(comparator, _SHARE)
        case AllOf(conditions):
            return share_of_all(conditions)
        case AnyOf(conditions):
            return min(1.0, sum(map(_share_of, conditions)))
        case NullTest() | TextMatch():
            return 0.1
        case SameEntity():
            return 0.01


def _properties(condition: Condition) -> Iterator[PropertyValue]:
    return (each for each in references_of(condition) if isinstance(each, PropertyValue))


def _names(variables: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in variables)


def _count(rows: float) -> str:
    # An estimate of zero is shown only if no row can match.
    return f"{max(round(rows), 1) if rows else 0:,}"


def _rows(rows: float) -> str:
    count = _count(rows)
    return f"{count} {'row' if count == '1' else 'rows'}"


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_STEP}{line}" for line in lines)
