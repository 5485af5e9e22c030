"""What reads have in common as requests tell it: where they look, and what they may cost."""

from __future__ import annotations

from omnigraph.engine.read.budget import CallLimits
from omnigraph.model.arguments import require_one_place, require_text
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import MAIN, BranchName, parse_branch_name


def tell_place(branch: str | None, commit: str | None) -> dict[str, str]:
    """What a read is about, as requests name it; `main` if it names nothing."""
    require_one_place(branch, commit)
    if commit is None:
        name: BranchName = parse_branch_name(branch or MAIN)
        return {"branch": name}
    require_text(commit, subject="commit")
    return {"snapshot": commit}


def tell_limits(limits: CallLimits | None) -> dict[str, object]:
    """What a read may cost, as requests tell it; what cannot be sent is refused."""
    if limits is None:
        return {}
    if limits.cancelled is not None:
        raise InvalidValueError(
            subject="limits",
            expected="bounds that can be sent",
            value="cancelled",
            problem="a query of a server is stopped by closing its graph; give `seconds_max`",
        )
    return {"seconds_max": limits.seconds_max, "bytes_max": limits.bytes_max}
