"""`validate`: looking at what a folder asks for. Touches no graph and no storage."""

from __future__ import annotations

from pathlib import Path

from omnigraph.cluster.config import CONFIG_FILE
from omnigraph.cluster.desired import read_desired
from omnigraph.cluster.findings import Findings
from omnigraph.cluster.reports import Heading, ValidateReport


def validate(folder: Path) -> ValidateReport:
    """Check a folder: everything that is wrong with it, or all that it asks for."""
    findings = Findings()
    desired = None
    with findings.stopping():
        desired = read_desired(folder, findings)
    heading = Heading(str(folder), tuple(findings))
    return ValidateReport(heading, str(folder / CONFIG_FILE), desired)
