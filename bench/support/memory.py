"""The resident memory of a process and its peak, as Linux reports them.

The peak from the `resource` module includes the memory of the parent process.
"""

from dataclasses import dataclass
from pathlib import Path

_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Resident:
    """Resident memory of a process in MiB: now, and its peak since the last `reset_peak`."""

    now: float
    peak: float


def reset_peak() -> None:
    """Reset the peak of this process to its current memory."""
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)


def measure_resident(process_id: int | None = None) -> Resident:
    """The memory of a process; by default, of this one."""
    text = Path(f"/proc/{process_id or 'self'}/status").read_text()
    kibibytes = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in text.splitlines())
        if name in ("VmRSS", "VmHWM")
    }
    return Resident(now=kibibytes["VmRSS"] / 1024, peak=kibibytes["VmHWM"] / 1024)
