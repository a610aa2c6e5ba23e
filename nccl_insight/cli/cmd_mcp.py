"""``nccl-insight mcp``: the questions of an agent over the Model Context Protocol."""

from pathlib import Path

from nccl_insight.cli.choices import option


def mcp(root: Path = option("mcp --root", Path())) -> None:
    """Serve analyze, explain, tables, query, evidence, diff and lint to agents (MCP on standard input and output).

    Needs the extra: pip install 'nccl-insight[mcp]'. Nothing leaves the machine.
    """
    from nccl_insight.share.agents.server import serve

    serve(root.resolve())
