"""Checks launch scripts and environments before a job spends its allocation. Executes nothing."""

from __future__ import annotations
