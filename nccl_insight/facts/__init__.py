"""What is derived from the tables of a :class:`~nccl_insight.tables.run.Run`, for rules, engine and views.

Each fact is a function of the run alone, memoized on it; those that ``columns.txt`` declares can be queried as
tables (:mod:`nccl_insight.facts.relations`). Whether what a fact shows is a fault, rules say. A room imports from those
above it only: ``said``, ``who``, ``setup``, ``fabric``, then ``progress`` and ``lateness`` side by side, ``figures``.
"""
