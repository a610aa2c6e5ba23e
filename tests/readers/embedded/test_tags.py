"""What a launcher."""

from __future__ import annotations

import pytest

from nccl_insight.readers.embedded.tags import Tag, read_path, read_tag


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (None, Tag()), ("", Tag()), ("[rank5]:", Tag(rank=5, maybe=("rank5",))), ("[1,5]<stderr>:", Tag(rank=5)),
        ("12: ", Tag(rank=12, maybe=("12",))),
        ("[default3]:", Tag(local_rank=3, maybe=("default3",))), ("[gpu01:4711:0:4720]", Tag(hosts=("gpu01",))),
        ("[pod/trainer-0/main] ", Tag(hosts=("trainer-0",))),
        ("(Worker pid=812, ip=10.0.0.7)", Tag(pid=812, hosts=("10.0.0.7",))),
        ("worker-1  | ", Tag(maybe=("worker-1",))),
    ],
)  # fmt: skip
def test_what_a_tag_says(text: str | None, tag: Tag) -> None:
    assert read_tag(text) == tag


def test_what_a_path_says() -> None:
    assert read_path("logs/gpu07/rank_12.log").rank == 12
    assert read_path("logs/gpu07/rank_12.log").host == "gpu07"
    assert read_path("out/attempt_0/3/stderr.log").local_rank == 3
    plain = read_path("run.log")
    assert (plain.rank, plain.local_rank, plain.host) == (None, None, None)


def test_the_tag_of_sagemaker_names_rank_and_host() -> None:
    tag = read_tag("[1,mpirank:23,algo-3]<stderr>:")
    assert (tag.rank, tag.hosts) == (23, ("algo-3",))


def test_the_file_of_an_agent_is_of_its_host() -> None:
    assert read_path("run/agent-gpu-a3-0017.log").host == read_path("run/gpu-a3-0017.log").host == "gpu-a3-0017"
