"""Makes the systems of tests/systems importable here."""

import sys
from pathlib import Path

for folder in ("systems", "reference"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
