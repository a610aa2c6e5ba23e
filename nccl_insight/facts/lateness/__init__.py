"""Where the time of steps goes, who is late and why, and what mending it would gain."""
