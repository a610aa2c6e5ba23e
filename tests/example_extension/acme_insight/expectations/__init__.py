"""Acme's expectations."""
