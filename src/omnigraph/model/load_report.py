"""What a load found wrong with its input: counted in full, told up to a bound, with places."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedMessage:
    """What is wrong with a row, and where it stands in the input; empty if that is not known."""

    place: str
    message: str


@dataclass(frozen=True, slots=True)
class RuleReport:
    """How many rows of a type break a rule, and the first of them.

    The type is None where a record does not get as far as having one.
    """

    type: str | None
    rule: str
    property: str | None
    count: int
    shown: tuple[PlacedMessage, ...]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Every rule that rows of a load break; as text it is for people to read.

    `location` is where the rejected rows were written, if they were.
    """

    rules: tuple[RuleReport, ...]
    location: str | None

    @property
    def count(self) -> int:
        """How often a rule was broken."""
        return sum(each.count for each in self.rules)

    def __str__(self) -> str:
        lines = []
        for each in self.rules:
            subject = ".".join(filter(None, (each.type, each.property))) or "records"
            lines.append(f"{each.count} x {each.rule} on {subject}")
            lines += [
                f"  {shown.place}: {shown.message}" if shown.place else f"  {shown.message}"
                for shown in each.shown
            ]
            if each.count > len(each.shown):
                lines.append(f"  and {each.count - len(each.shown)} more")
        if self.location is not None:
            lines.append(f"rejected rows are in {self.location}")
        return "\n".join(lines) or "nothing was wrong"


NOTHING_WRONG = LoadReport((), None)
