"""Questions without a run: what a setting means, what a launch script gets wrong, what a machine should reach."""
