"""What lines say beside their diagnosis, by the topics of the grammar (``grammars/topics.lark``)."""

import polars as pl

from nccl_insight.language.load import playing, topic_cases
from nccl_insight.tables.normalise.meaning import words


def told(rows: pl.DataFrame, topic: str) -> pl.Series:
    """The word that each row gives on a topic (str, null where it says nothing); ``rows`` of any table with text.

    ``source`` in a case is the file that the text names, where the message captures one, else that of the head.

    Raises:
        GrammarError: the grammar has no such topic.
    """
    if rows.is_empty():  # without rows of a log the grammar need not be read
        return pl.Series(topic, [], dtype=pl.String)
    return words(rows, topic_cases(topic))


def plays(rows: pl.DataFrame, part: str) -> pl.Series:
    """Whether the message of each row plays a part (``language/parts.toml``)."""
    # Without rows of a log the grammar need not be read.
    return rows["message"].is_in(playing(part) if rows.height else ())


def telling(rows: pl.DataFrame, topic: str, *wanted: str) -> pl.DataFrame:
    """The rows that say something on a topic, or one of ``wanted``."""
    said = told(rows, topic)
    if said.null_count() == said.len():
        return rows.clear()
    return rows.filter(said.is_in(list(wanted)) if wanted else said.is_not_null())
