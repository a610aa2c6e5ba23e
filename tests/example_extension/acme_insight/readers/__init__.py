"""Acme's readers."""
