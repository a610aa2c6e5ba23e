"""Tables of words."""

from nccl_insight.base.words import pairs, words


def test_words_are_parted_by_blanks_commas_and_ends_of_lines() -> None:
    assert words("a b,c, d\n    e") == ("a", "b", "c", "d", "e")
    assert words("") == ()


def test_a_pair_is_parted_at_its_first_sign() -> None:
    assert pairs("a=b\n    c=d=e f=") == {"a": "b", "c": "d=e", "f": ""}
