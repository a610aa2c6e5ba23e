"""``grammar lint``: the maintainers' commands."""

from __future__ import annotations

import typer

from nccl_insight.errors import ExitCode


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(no_args_is_help=True, help="The grammar of NCCL's log: checks, coverage, explanations.")
    app.add_typer(group, name="grammar")

    @group.command()
    def lint() -> None:
        """Checks the grammar's rules of determinism and portability."""
        from nccl_insight.grammar.lint import lint as run_lint
        from nccl_insight.grammar.load import default_grammar

        grammar = default_grammar()
        problems = run_lint(grammar)
        for problem in problems:
            typer.echo(str(problem))
        typer.echo(f"{len(grammar.messages)} rules, {len(problems)} problems", err=True)
        if problems:
            raise typer.Exit(int(ExitCode.FINDINGS))
