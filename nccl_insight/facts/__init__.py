"""Derived tables over a :class:`~nccl_insight.tables.run.Run`, shared by rules and renderers.

Each view is a function of the run alone, memoised on it. Views compute; they judge nothing.
"""
