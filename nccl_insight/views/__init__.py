"""What sections and figures of reports show, as frozen dataclasses of plain values.

A view reads tables and facts and counts, sorts and picks; it holds no prose, no markup and no place on the page.
Reports get views and the analysis, never tables. One view has no run: ``line``, which takes a text.
"""
