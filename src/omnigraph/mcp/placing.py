"""Where the writes of an agent go: to a branch of its own, and never where people rely on the rows.

Pure. Whether the agent may write there is a policy's business, which is asked besides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from omnigraph.mcp.limits import ACTOR_CHARACTERS_MAX
from omnigraph.mcp.refusals import Told, ToolError
from omnigraph.model.errors import Outcome
from omnigraph.model.names import BranchName, fnv1a_32, parse_branch_name

PREFIX = "agent/"
"""What the branches of agents are called before their names."""

NOBODY = "local"
"""Who writes to a graph that knows no actors."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class WriteRule:
    """The agent's own branch, and those that its tools do not write to."""

    own: BranchName
    protected: frozenset[str]

    def place(self, named: object) -> BranchName:
        """The branch that a write goes to; `ToolError` if that one is protected."""
        branch = self.own if named is None else parse_branch_name(named)
        if branch in self.protected:
            raise ToolError(
                Told(
                    "forbidden",
                    f"tools do not write to the branch '{branch}'",
                    Outcome.UNCHANGED,
                    f"Nothing was changed. Leave out the branch to write to '{self.own}'; "
                    f"a person looks at it and merges it into '{branch}'.",
                )
            )
        return branch


def own_branch(actor: str | None) -> BranchName:
    """The branch of an agent that acts for somebody; equal for equal actors."""
    name = NOBODY if actor is None else actor
    if _PLAIN.fullmatch(name) and not name.endswith(".lock") and len(name) <= ACTOR_CHARACTERS_MAX:
        return parse_branch_name(f"{PREFIX}{name}")
    # Not every name of an actor is one of a branch; the number keeps apart those that look alike.
    readable = _REFUSED.sub("-", name[:ACTOR_CHARACTERS_MAX]).strip("-") or NOBODY
    return parse_branch_name(f"{PREFIX}{readable}-{fnv1a_32(name):08x}")
