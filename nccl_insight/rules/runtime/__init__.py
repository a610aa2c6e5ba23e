"""Diagnoses about errors and hangs."""
