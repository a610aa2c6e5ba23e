"""Speed, memory and growth of the tool: see docs/performance.md."""
