"""Diagnoses about performance."""
