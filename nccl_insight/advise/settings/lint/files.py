"""Reads the smaller kinds of files: Dockerfiles, nccl.conf and .env files."""

import re

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import issue_of
from nccl_insight.advise.settings.lint.model import Script, Setting
from nccl_insight.advise.settings.lint.shell import read_own_shell, read_shell, read_words
from nccl_insight.advise.settings.lint.words import Known, expand, logical_lines, tokenize

_INSTRUCTION = re.compile(r"(?i)\s*(ENV|CMD|ENTRYPOINT|RUN|ARG)\s+(.*)$", re.S)
# Who reads files that look like a shell's, and expands nothing in them.
_FORMS = {"DeepSpeed": r"(?:^|/)\.deepspeed_env$", "NCCL": r"(?i)[nr]ccl\.conf$", "PAM": r"(?:^|/)environment$"}


def read_dockerfile(script: Script, text: str) -> None:
    """Adds what ENV sets and what CMD and ENTRYPOINT start."""
    for line, row in logical_lines(text, commented=True):
        match = _INSTRUCTION.match(row)
        if match is None:
            continue
        instruction, rest = match[1].upper(), match[2].strip()
        if instruction in {"ENV", "ARG"}:
            _dockerfile_env(script, rest, line, instruction)
        elif instruction == "RUN":
            if "<<" in rest and "\n" in rest:
                continue
            step = "Write ENV {name}={value}"
            read_own_shell(script, rest, line, "RUN (lasts for this RUN only)", step, scope="RUN", build=True)
        elif instruction in {"CMD", "ENTRYPOINT"}:
            if rest.startswith("["):
                words = re.findall(r'"((?:[^"\\]|\\.)*)"', rest)
                read_words(script, [(word, line) for word in words], "image")
            else:
                read_shell(script, rest, line, 1, "image")


def _dockerfile_env(script: Script, rest: str, line: int, instruction: str) -> None:
    words = [(t.text, t.line) for t in tokenize(rest, line) if t.kind == "word"]
    if words and "=" not in words[0][0] and len(words) >= 2 and instruction == "ENV":
        # The old form takes the line as it is; quotes may leave no blank to cut at.
        rest_of_it = rest.split(None, 1)[1:] or [" ".join(word for word, _ in words[1:])]
        words = [(f"{words[0][0]}={rest_of_it[0]}", line)]
    for word, at in words:
        name, equals, raw = word.partition("=")
        value, complete = expand(raw, Known(script.room))
        if name == "NCCL_VERSION" and complete and re.match(r"2\.\d+", value):
            script.version = script.version or value.split("-")[0]
        if equals and catalog().relevant(name) and instruction == "ENV":
            script.settings.append(Setting(name, value, at, "Dockerfile ENV", complete=complete))
            if not complete:
                script.not_evaluated.append((at, f"{name}={value}: depends on build arguments"))


def read_unit(script: Script, text: str) -> None:
    """A systemd unit or a Quadlet file: ``Environment=`` and the commands of ``Exec...=``."""
    for line, row in logical_lines(text, commented=True):
        key, equals, rest = row.partition("=")
        if not equals:
            continue
        if key.strip() == "Environment":
            name, given = "", ""
            for token in (token for token in tokenize(rest, line) if token.kind == "word"):
                before = name if given else ""
                name, given, value = expand(token.text, Known(script.room))[0].partition("=")
                if given and catalog().relevant(name):
                    script.settings.append(Setting(name, value, token.line, "systemd Environment"))
                elif not given and catalog().relevant(before):
                    why = f"systemd ends the value at the blank and ignores {token.text:.40}"
                    script.problems.append((token.line, issue_of("conf-line", before, why=why)))
        elif key.strip() in {"ExecStart", "ExecStartPre", "Exec"}:
            read_shell(script, rest.lstrip("-@+!"), line, 1, "unit")
        elif key.strip() in {"PodmanArgs", "DockerArgs"}:
            read_shell(script, f"podman {rest}", line, 1, "unit")


def read_conf(script: Script, text: str, path: str = "", first_line: int = 1, *, filled: bool = False) -> None:
    """``NAME=VALUE`` lines of nccl.conf, of an environment file, or of DeepSpeed's.

    nccl.conf takes quotes, blanks and ``export`` as they stand. ``filled``: a shell writes the text and puts
    variables in before.
    """
    whose = next((who for who, form in _FORMS.items() if re.search(form, path or script.path)), "")
    if script.kind == "nccl.conf" and not path:
        whose = "NCCL"
    strict = whose in {"NCCL", "DeepSpeed"}
    for number, row in enumerate(text.split("\n"), first_line):
        name, equals, value = row.rstrip("\r").partition("=")
        bare = name.strip().removeprefix("export ").strip()
        if not equals or bare[:1] == "#" or not catalog().relevant(bare):
            continue
        said = ["takes the text before = as the name, blanks and all"] if strict and name != bare else []
        if strict and (comment := re.search(r"\s#", value)):
            said.append("takes the comment behind the value as part of it")
            value = value[: comment.start()]
        if whose and not filled and re.search(r"\$\{?\w|\$\(|`", value):
            said.append(f"expands nothing here: the value is literally {value.strip()[:60]}")
        script.problems += [(number, issue_of("conf-line", bare, why=f"{whose} {why}")) for why in said]
        complete = re.search(r"\$|\{\{", value) is None
        if not whose:
            value, complete = expand(value.strip(), Known(script.room))
        shown = value if whose == "NCCL" else value.strip().strip("\"'")
        script.settings.append(Setting(bare, shown, number, "configuration file", complete=complete))
