"""How many rows the tables of a report list."""

from __future__ import annotations

from typing import Final

LISTED: Final = 50
