"""How much memory a process holds at most, by what Linux counts of it.

What `resource` tells of a process includes the memory of the one that started it.
"""

from dataclasses import dataclass
from pathlib import Path

_FORGET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Resident:
    """Memory of a process in MiB: what it holds now, and the most since it was asked to forget."""

    now: float
    peak: float


def forget_peak() -> None:
    """Let the peak of this process begin anew."""
    Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)


def measure_resident(process_id: int | None = None) -> Resident:
    """The memory of a process, of this one if none is named."""
    text = Path(f"/proc/{process_id or 'self'}/status").read_text()
    kibibytes = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in text.splitlines())
        if name in ("VmRSS", "VmHWM")
    }
    return Resident(now=kibibytes["VmRSS"] / 1024, peak=kibibytes["VmHWM"] / 1024)
