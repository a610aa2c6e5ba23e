"""Rows become the contract: the schema of every table, the run, assembly, normalizers and matching across ranks."""
