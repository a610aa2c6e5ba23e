"""The contract: the schema of every table, the run that holds them, SQL over it, normalizers and matching across ranks.

Tables are put together from the rows of readers in :mod:`nccl_insight.loading`.
"""
