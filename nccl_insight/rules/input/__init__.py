"""Diagnoses about the inputs themselves."""
