"""Tables of words, written as the words."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text, which blanks, commas and ends of lines part."""
    return tuple(text.replace(",", " ").split())


def pairs(text: str) -> dict[str, str]:
    """Words by words, each pair written ``word=other``."""
    return dict(pair.split("=", 1) for pair in text.split())
