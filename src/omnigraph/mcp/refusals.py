"""What a tool that did not do what it was called for says: what happened, and what to do next.

An agent decides by these words alone, so they say whether the graph changed and whether calling
again can help. Knows neither the protocol nor HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.model.errors import GraphError, Outcome

_CALL_OTHERWISE = "Nothing was changed. Change the arguments and call again."
_NOT_ALLOWED = "Nothing was changed. Calling again will not help; ask whoever runs this graph."
_WAIT = "Nothing was changed. Wait a little and call again; if that does not help, tell its owner."

_ADVICE_BY_CODE = {
    "unauthorized": _NOT_ALLOWED,
    "forbidden": _NOT_ALLOWED,
    "too_many_requests": _WAIT,
    "unavailable": _WAIT,
}
_ADVICE_BY_OUTCOME = {
    Outcome.UNCHANGED: _CALL_OTHERWISE,
    Outcome.MOVED: "Somebody else wrote first; nothing was changed. Read again, then call again.",
    Outcome.UNCERTAIN: "It may have been done. Look at the commits of the branch before you call "
    "again.",
    Outcome.BROKEN: "Stop. Whoever runs this graph has to look at it.",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent hears instead of an answer."""

    code: str
    message: str
    outcome: Outcome
    advice: str

    @property
    def fields(self) -> dict[str, object]:
        """The same as JSON has it."""
        return {
            "code": self.code,
            "message": self.message,
            "outcome": self.outcome.value,
            "advice": self.advice,
        }


class ToolError(Exception):
    """A call that is refused before any graph is asked."""

    def __init__(self, told: Told) -> None:
        super().__init__(told.message)
        self.told = told


def tell_error(error: Exception) -> Told:
    """What is told of an error of the graph, or of a mistake of ours, of which nothing is shown."""
    if isinstance(error, GraphError):
        return tell(error.code, str(error), error.outcome)
    return tell("internal", "this is a mistake in omnigraph; its log has more", Outcome.UNCERTAIN)


def tell(code: str, message: str, outcome: Outcome) -> Told:
    """A refusal with the advice that its code or its outcome calls for."""
    advice = _ADVICE_BY_OUTCOME[outcome]
    if outcome is Outcome.UNCHANGED:
        advice = _ADVICE_BY_CODE.get(code, advice)
    return Told(code, message, outcome, advice)


def unknown_tool() -> ToolError:
    """There is no such tool, or whoever calls may not run any: both are told alike."""
    return ToolError(
        Told(
            "not_found",
            "stored query not found",
            Outcome.UNCHANGED,
            "Nothing was changed. List the tools to see which there are.",
        )
    )
