"""What stands for a word: hosts, users, addresses, paths and identifiers by their form."""

from __future__ import annotations

from nccl_insight.share.redact.names import Names
from nccl_insight.share.redact.words import Words


def words() -> tuple[Words, Names]:
    names = Names()
    names.host("ares07")
    names.user("mwinter")
    names.job("llama-run")
    return Words(names), names


def test_known_names_and_their_siblings_are_replaced_wherever_they_stand() -> None:
    made, _ = words()
    assert made.replaced("on ares07, ares08 by mwinter") == "on node1, node2 by user1"
    assert made.replaced("ARES07.log") == "node1.log"
    assert made.replaced("log-ares07-rank3") == "log-node1-rank3"


def test_what_has_the_form_of_an_identifier_is_replaced() -> None:
    made, _ = words()
    assert made.replaced("10.31.0.7") != "10.31.0.7"
    assert made.replaced("GPU-0f1e2d3c-1111-2222-3333-444455556666") == "GPU-00000000-0000-0000-0000-000000000001"
    assert "jane" not in made.replaced("jane.doe@corp.example.com")
    assert "secretdir" not in made.replaced("/data/secretdir/run.log")


def test_numbers_pointers_and_system_paths_stay() -> None:
    made, _ = words()
    for text in ("rank 12 of 1024", "comm 0x7f0123456789abcd", "/usr/lib/libnccl.so.2", "127.0.0.1", "loss 2.5e-3"):
        assert made.replaced(text) == text
