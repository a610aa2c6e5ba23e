"""Diagnoses about how ranks find each other."""
