"""The command line. Only this package prints, reads the environment or ends the process."""

from __future__ import annotations

import atexit
import contextlib
import gc
import glob
import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from nccl_insight.base.errors import ExitCode, InsightError, UsageError

if TYPE_CHECKING:
    import typer

# polars' allocator gives freed memory back to the system and asks for it again for every chunk of a log, which
# costs a quarter of the reading. A command ends soon and need not. Large pieces are no exception: what one chunk freed
# is used for the next. Read when polars is imported.
_ALLOCATOR = ("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0,background_thread:false")
# Each of the thousand small queries of a small input wakes all threads of polars, which look for work and find none: up
# to a seventh of such a command. One takes as long to answer them. Read when polars is imported.
_THREADS = ("POLARS_MAX_THREADS", "1")
_SMALL_BYTES = 2 << 20
# What is read stays until the command ends, so looking for garbage among it is in vain most of the time. Modules and
# grammar alone are 100,000 objects.
_GARBAGE_AFTER = (300_000, 50, 100)
# Commands that share a module with another.
_HOMES = {"explain": "rules", "config": "rules", "query": "tables"}
# Exit codes of a process that a signal ended begin here.
_SIGNALLED = 128
_ONCE_MORE_S = 0.01
_REPORT = "please report this with the command line and, if you can, a redacted log"


def build_app(command: str = "") -> typer.Typer:
    """The application with the commands of every ``cmd_*.py`` module of this package: the function of its name, or what
    its ``register`` adds.

    ``command``: one that is about to run. Where it has a module of its name, the others are left out, which saves
    their parameters.
    """
    import typer

    from nccl_insight.cli.help import arrange

    app = typer.Typer(
        name="nccl-insight",
        help="Reads NCCL logs and profiler traces and says what happened.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def root(
        version: bool = typer.Option(False, "--version", help="Show versions and exit.", is_eager=True),
        verbose: bool = typer.Option(False, "-v", help="Show where an internal error happened."),
    ) -> None:
        if version:
            typer.echo(_versions())
            raise typer.Exit()

    modules = [i.name for i in pkgutil.iter_modules(__path__) if i.name.startswith("cmd_")]
    own = f"cmd_{_HOMES.get(command, command).replace('-', '_')}"
    for name in [own] if own in modules else sorted(modules):
        module, named = importlib.import_module(f"{__name__}.{name}"), name.removeprefix("cmd_")
        if hasattr(module, "register"):
            module.register(app)
        else:
            app.command(named.replace("_", "-"))(getattr(module, named))
    arrange(app)
    return app


def with_command(arguments: Sequence[str], commands: frozenset[str]) -> list[str]:
    """``nccl-insight run.log`` means ``nccl-insight analyze run.log``: the default job needs no name.

    Taken so only if the first argument is no command and names something that is there (a file, a directory, a pattern
    that matches, ``-``), so a mistyped command is still told to be one. Raises UsageError: the first argument looks
    like a path and is none.
    """
    given = list(arguments)
    if given[:1] == ["help"]:
        return [*given[1:], "--help"]
    if not given or given[0] in commands or (given[0].startswith("-") and given[0] != "-"):
        return given
    first = given[0]
    if ("/" in first or "." in first) and not glob.has_magic(first) and not os.path.exists(first):
        raise UsageError(f"{first}: no such file, and no command of that name")
    known = first == "-" or os.path.exists(first) or (glob.has_magic(first) and bool(glob.glob(first)))
    return ["analyze", *given] if known else given


def are_small(words: Sequence[str]) -> bool:
    """Whether those of the words that name something name files, and these are small."""
    sizes = [os.path.getsize(word) if os.path.isfile(word) else _SMALL_BYTES for word in words if os.path.exists(word)]
    return 0 < sum(sizes) < _SMALL_BYTES and "-" not in words


def _versions() -> str:
    import platform
    from importlib import metadata

    from nccl_insight.base.version import __version__
    from nccl_insight.language.load import grammar_digest

    return (
        f"nccl-insight {__version__} (grammar {grammar_digest()}, schema 1, "
        f"python {platform.python_version()}, polars {metadata.version('polars')})"
    )


def _usage(message: str, context: object) -> str:
    """A usage error in one line, with where the options are explained."""
    path = getattr(context, "command_path", "nccl-insight")
    said = " ".join(message.replace("Value error, ", "").split()).rstrip(".")
    return f"{said} (options: {path} -h)"


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"nccl-insight: {message}\n")
    raise SystemExit(code)


def _end(number: int, frame: object) -> NoReturn:
    """A signal becomes an ordinary exit, so that temporary files go."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(_SIGNALLED + number)


def _unraisable(event: sys.UnraisableHookArgs) -> None:
    """Sends a signal once more whose exception the interpreter cannot raise, as in the callback of a weak reference.

    Else it would print a traceback and go on, and whoever pressed Control-C would have to do so again.
    """
    value = event.exc_value
    if isinstance(value, KeyboardInterrupt):
        number = int(signal.SIGINT)
    elif isinstance(value, SystemExit) and isinstance(value.code, int) and value.code > _SIGNALLED:
        number = value.code - _SIGNALLED
        signal.signal(number, _end)
    else:
        if not isinstance(value, MemoryError):  # who waits for the thread says so
            sys.__unraisablehook__(event)
        return
    import threading

    def send() -> None:
        main_thread = threading.main_thread().ident
        if hasattr(signal, "pthread_kill") and main_thread is not None:  # ends what the main thread waits for
            signal.pthread_kill(main_thread, number)
        else:
            signal.raise_signal(number)

    threading.Timer(_ONCE_MORE_S, send).start()


def _prepare() -> None:
    """Streams that are closed become empty ones; signals that end the process let it clean up."""
    sys.unraisablehook = _unraisable
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A handler that ignores the signal was set on purpose: nohup.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)


def _silence() -> None:
    """What is left in the buffer of standard output cannot be written and must not fail once more at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answered(words: list[str]) -> Any:
    """What the command gives that these words ask for."""
    if words == ["--version"]:
        # Scripts ask before every run: answered without the parser of the command line, which takes longer.
        sys.stdout.write(_versions() + "\n")
        return 0
    from nccl_insight.cli.choices import COMMANDS

    given = with_command(words, COMMANDS)
    if are_small(given[1:]) and given[0] != "watch":
        os.environ.setdefault(*_THREADS)
    paths = [word for word in given[1:] if word == "-" or not word.startswith("-")]
    if paths and given == ["analyze", *paths]:
        from nccl_insight.cli.cmd_analyze import without_options

        return without_options(paths)
    return build_app(given[0] if given else "")(given, prog_name="nccl-insight", standalone_mode=False)


def main() -> None:
    """Runs the ``nccl-insight`` command; every way out has a documented exit code."""
    os.environ.setdefault(*_ALLOCATOR)
    gc.set_threshold(*_GARBAGE_AFTER)
    _prepare()
    try:
        result = _answered(sys.argv[1:])
        sys.stdout.flush()
        raise SystemExit(int(result or 0))
    except InsightError as error:
        if str(error).startswith("standard output:"):
            _silence()
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except SystemExit as error:
        # The parser of the command line turns a pipe that closes inside a command into exit 1, which means findings.
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _silence()
        raise SystemExit(ExitCode.PIPE_CLOSED) from None
    except BrokenPipeError:
        _silence()
        raise SystemExit(ExitCode.PIPE_CLOSED) from None
    except OSError as error:
        _silence()
        _fail(f"{error.filename or 'standard output'}: {error.strerror or error}", ExitCode.USAGE)
    except BaseException as error:  # a library of Rust panics with one that is no Exception
        _unforeseen(error)


def _unforeseen(error: BaseException) -> NoReturn:
    """Ends with what the parser of the command line, memory, or a mistake of ours raised."""
    # Before Python 3.12 what a signal raises while a class is made arrives wrapped.
    if isinstance(error.__cause__, KeyboardInterrupt):
        raise SystemExit(ExitCode.INTERRUPTED) from None
    if isinstance(error.__cause__, SystemExit):
        raise error.__cause__ from None
    import typer

    if _starved(error):
        _fail("not enough memory: raise the limit (ulimit -v) or give fewer inputs at a time", ExitCode.NOT_JUDGED)
    if isinstance(error, typer.Abort):
        raise SystemExit(ExitCode.INTERRUPTED) from None
    _refused(error)
    if "-v" in sys.argv or "-vv" in sys.argv:
        import traceback

        traceback.print_exc()
    _fail(f"internal error: {type(error).__name__}: {error}; {_REPORT} (-v shows where)", ExitCode.INTERNAL)


def _refused(error: BaseException) -> None:
    """The way out of an error of usage. Typer ships its own copy of click in some releases, so these have no importable
    class."""
    message = getattr(error, "format_message", None)
    if callable(message) and hasattr(error, "exit_code"):
        said = str(message())
        if said.startswith("Usage:"):  # a group without a command: its help
            sys.stderr.write(said + "\n")
            raise SystemExit(ExitCode.USAGE) from None
        _fail(_usage(said, getattr(error, "ctx", None)), ExitCode.USAGE)


def _starved(error: BaseException) -> bool:
    """Whether memory ran out. A library that gets none under a limit may return without an exception of its own, which
    the interpreter tells as one of the system, or panic where it finds no room for a thread."""
    if not isinstance(error, SystemError) and type(error).__name__ != "PanicException":
        return isinstance(error, MemoryError)
    try:
        import resource
    except ImportError:  # not on this system
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _leave(code: int) -> None:
    """Ends the process at once, unless something that is left to be written cannot be, or torch has work at the end."""
    if "torch" in sys.modules:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def run() -> None:
    """Entry point of the process: :func:`main`, and an end that takes nothing apart.

    The interpreter would look for garbage three times more and hand back hundreds of MB of tables piece by piece: a
    fifth of a short command. What has to be done at the end (temporary files) is registered later than this, so it is
    done before.
    """
    codes: list[int] = []
    atexit.register(lambda: _leave(codes[0]) if codes else None)
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise
