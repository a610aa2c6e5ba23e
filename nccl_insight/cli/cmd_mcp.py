"""``nccl-insight mcp``: the questions of an agent over the Model Context Protocol."""

from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def mcp(root: Path = typer.Option(Path(), "--root", help="Only files below this directory can be read.")) -> None:
        """Serve analyze, explain, tables, query, evidence, diff and lint to agents (MCP on standard input and output).

        Needs the extra: pip install 'nccl-insight[mcp]'. Nothing leaves the machine.
        """
        from nccl_insight.share.agents.server import serve

        serve(root.resolve())
