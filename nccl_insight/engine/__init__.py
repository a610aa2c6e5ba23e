"""From tables to a verdict: runs the rules, orders what they found, separates causes from consequences."""
