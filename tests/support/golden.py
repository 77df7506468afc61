"""Where goldens live: golden/<kind>/<case>.json, one reviewed file a case."""

from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"
