"""How many rows the tables of a report list."""

from typing import Final

LISTED: Final = 50
