"""Acme's grammars."""
