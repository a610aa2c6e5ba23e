"""Diagnoses about how the job was started and configured."""
