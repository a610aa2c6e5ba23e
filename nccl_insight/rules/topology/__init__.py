"""Diagnoses about links and paths inside a host."""
