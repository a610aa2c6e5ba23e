"""``grammar``: how well the grammar knows a log, what a line means, how to add a message."""

from pathlib import Path

import typer

from nccl_insight.base.errors import ExitCode
from nccl_insight.cli.choices import option


def register(app: typer.Typer) -> None:
    """Adds the command group."""
    group = typer.Typer(no_args_is_help=True, help="The grammar of NCCL's log: checks, coverage, explanations.")
    app.add_typer(group, name="grammar")
    group.command()(lint)
    group.command()(coverage)
    group.command("explain-line")(explain_line)
    group.command()(suggest)
    group.command()(diff)


def lint() -> None:
    """Check the grammar's rules of determinism and portability."""
    from nccl_insight.language.lint import lint as run_lint
    from nccl_insight.language.load import default_grammar
    from nccl_insight.rules import discover

    grammar = default_grammar()
    problems = run_lint(grammar, {rule.name for rule in discover()})
    for problem in problems:
        typer.echo(str(problem))
    typer.echo(f"{len(grammar.messages)} rules, {len(problems)} problems", err=True)
    if problems:
        raise typer.Exit(int(ExitCode.FINDINGS))


def coverage(
    paths: list[str] = option("grammar coverage PATH...|-", ...), top: int = option("group coverage --top", 20, min=0)
) -> None:
    """Which share of a log's lines the grammar understands, by message, and what it does not know."""
    from nccl_insight.inputs.find import find_inputs
    from nccl_insight.readers.nccl_log.coverage import measure, show

    typer.echo(show(measure(find_inputs(paths)), top), nl=False)


def explain_line(line: str = typer.Argument(..., help="A line of a log, with or without its head.")) -> None:
    """What a line means, field by field; for an unknown line, where it stops matching."""
    from nccl_insight.readers.nccl_log.explain import explain

    typer.echo(explain(line), nl=False)


def suggest(
    paths: list[str] = option("grammar suggest PATH...|-", ...), top: int = option("group suggest --top", 5, min=1)
) -> None:
    """Skeletons of rules for the most frequent unknown lines."""
    from nccl_insight.inputs.find import find_inputs
    from nccl_insight.readers.nccl_log.coverage import measure, suggestions

    found = suggestions(measure(find_inputs(paths)), top)
    typer.echo(found or "every NCCL line is known\n", nl=False)


def diff(
    source: str = option("grammar diff SOURCE", ...), skeletons: bool = option("group diff --skeletons", False)
) -> None:
    """Which messages and settings of a source tree the grammar and the catalog do not know."""
    from nccl_insight.advise.settings.catalog import catalog
    from nccl_insight.advise.settings.update import entries, unknown_settings
    from nccl_insight.language.binaries import is_binary, read_binary
    from nccl_insight.language.catalog import default_catalog
    from nccl_insight.language.diff import show
    from nccl_insight.language.projects import project_at, unknown
    from nccl_insight.language.sources import read_tree

    other = project_at(Path(source))
    if other is not None:
        from nccl_insight.views.line import means_something

        text, found, every = unknown(*other, means_something, skeletons)
        typer.echo(text, nl=False)
        typer.echo(f"{other[0].name}: {every} messages of failures, {found} not known", err=True)
        if found:
            raise typer.Exit(int(ExitCode.FINDINGS))
        return
    tree = read_binary(Path(source)) if is_binary(Path(source)) else read_tree(source)
    data = catalog()
    text, found = show(default_catalog(), tree, skeletons)
    new = unknown_settings(data, ((s.name, s.default, f"{s.file}:{s.line}") for s in tree.settings))
    typer.echo(text, nl=False)
    if skeletons:
        typer.echo(entries(new, tree.library, tree.version), nl=False)
    else:
        for setting in new:
            typer.echo(f"setting  {setting.place}  {setting.name} = {setting.default or '(no default)'}")
    typer.echo(
        f"{tree.library} {tree.version or '(version not found)'}: {len(tree.calls)} logging calls, {found} not "
        f"known; {len(tree.settings)} settings, {len(new)} not known; {tree.computed} formats are made at run time",
        err=True,
    )
    if found or new:
        raise typer.Exit(int(ExitCode.FINDINGS))
