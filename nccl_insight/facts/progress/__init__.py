"""How far each rank got, from every source that tells, and who waits for whom."""
