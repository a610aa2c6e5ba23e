"""What a program that talks (an agent) may ask: the same answers as the command line, as data, over MCP."""
