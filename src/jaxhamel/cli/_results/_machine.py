"""A description of the machine for benchmarks: processor, accelerator, versions."""

import platform
import re
from pathlib import Path

import jax

from jaxhamel._cores import cores
from jaxhamel.cli._results._outcome import versions


def machine() -> dict[str, str]:
    """Processor, accelerator, system and versions, by name."""
    known = versions()
    return {
        "processor": _processor(),
        "cores": str(cores()),
        "device": f"{jax.device_count()} × {jax.devices()[0].device_kind}",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {known[name]}" for name in ("jaxhamel", "jax", "python")),
    }


def _processor() -> str:
    """Name of the processor: from /proc/cpuinfo on Linux, from `platform` elsewhere."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
