"""Dockerfiles, systemd units and files of settings, each with its own rules of quotes and blanks."""

from __future__ import annotations

from nccl_insight.advise.settings.lint.files import read_conf, read_dockerfile, read_unit
from nccl_insight.advise.settings.lint.model import Script


def _settings(script: Script) -> list[tuple[str, str, int]]:
    return [(s.name, s.value, s.line) for s in script.settings]


def test_env_of_a_dockerfile_in_both_forms_and_the_version_of_an_image() -> None:
    script = Script("Dockerfile", "dockerfile")
    text = 'FROM base\nENV NCCL_VERSION=2.21.5-1\nENV NCCL_DEBUG="INFO" PATH=/x \\\n    NCCL_IB_HCA=mlx5\n'
    read_dockerfile(script, text + "ENV NCCL_ALGO Ring\nARG NCCL_PROTO=LL\n")
    assert ("NCCL_DEBUG", "INFO", 3) in _settings(script)
    assert ("NCCL_IB_HCA", "mlx5", 4) in _settings(script)
    assert ("NCCL_ALGO", "Ring", 5) in _settings(script)
    assert "NCCL_PROTO" not in {s.name for s in script.settings}
    assert script.version == "2.21.5"


def test_a_unit_sets_what_environment_says() -> None:
    script = Script("job.service", "unit")
    read_unit(script, '[Service]\nEnvironment="NCCL_DEBUG=WARN" "HOME=/root"\nEnvironment=NCCL_ALGO=Tree\n')
    assert _settings(script) == [("NCCL_DEBUG", "WARN", 2), ("NCCL_ALGO", "Tree", 3)]


def test_a_value_in_a_unit_ends_at_a_blank() -> None:
    script = Script("job.service", "unit")
    read_unit(
        script, '[Service]\nEnvironment=NCCL_IB_HCA=mlx5_0, mlx5_1\nEnvironment=HOME=/root x "NCCL_ALGO=Ring, Tree"\n'
    )
    assert _settings(script) == [("NCCL_IB_HCA", "mlx5_0,", 2), ("NCCL_ALGO", "Ring, Tree", 3)]
    ((line, issue),) = script.problems
    assert (line, issue.name, issue.severity) == (2, "env-invalid-value", "warning")
    assert issue.title == "NCCL_IB_HCA: systemd ends the value at the blank and ignores mlx5_1"


def test_nccl_takes_quotes_and_comments_of_its_file_as_they_stand() -> None:
    script = Script("nccl.conf", "nccl.conf")
    read_conf(script, '# all\nNCCL_DEBUG=INFO\nNCCL_ALGO="Ring"\nexport NCCL_PROTO=LL\nNCCL_NTHREADS=512 # many\n')
    assert _settings(script)[:2] == [("NCCL_DEBUG", "INFO", 2), ("NCCL_ALGO", '"Ring"', 3)]
    assert [line for line, _ in script.problems] == [4, 5]
    assert [s.complete for s in script.settings] == [True] * 4


def test_a_variable_in_a_file_that_nobody_expands_is_literal() -> None:
    script = Script("/etc/environment", "env")
    read_conf(script, "NCCL_TOPO_FILE=$HOME/topo.xml\n")
    ((line, issue),) = script.problems
    assert line == 1
    assert "$HOME/topo.xml" in str(issue)
    assert not script.settings[0].complete
