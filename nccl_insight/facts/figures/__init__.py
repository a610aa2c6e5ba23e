"""Figures against what they should be: bandwidth, exposed time, ranks that stand apart, runs compared."""
