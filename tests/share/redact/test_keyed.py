"""Names behind keys: the last word of a key says what its value is."""

from __future__ import annotations

import pytest

from nccl_insight.share.redact.keyed import names


@pytest.mark.parametrize(
    ("line", "kind", "name"),
    [
        ('"experiment": "otter-run",', "job", "otter-run"),
        ("wandb: starting with --entity kestrel_lab --mode online", "job", "kestrel_lab"),
        ("connecting host='petrel' port=22", "host", "petrel"),
        ("submitted_by=marlowe", "user", "marlowe"),
        ("general.experiment_name = fennel", "job", "fennel"),
        ("headNode: tern-4", "host", "tern-4"),
        ("  wandb_entity ........ mirabel", "job", "mirabel"),
    ],
)
def test_a_key_names_its_value(line: str, kind: str, name: str) -> None:
    assert list(names([line])) == [(kind, name, "")]


@pytest.mark.parametrize(
    "line",
    [
        "process_group_name=tensor_parallel", "lr = 0.00015", "host=0x7f3a", "hidden_size: 4096", "service=running",
        "queue: default", "username=ALL", "host=gpu07",
    ],
)  # fmt: skip
def test_values_that_name_nobody_stay(line: str) -> None:
    assert list(names([line])) == []


def test_a_key_of_settings_counts_before_a_value_that_looks_like_a_name() -> None:
    assert list(names(["partition=otters-a100"])) == [("job", "otters-a100", "")]
    assert list(names(["partition=train"])) == []
    assert list(names(["no key", "node=tern-12"])) == [("host", "tern-12", "")]
