"""A drawing as a picture (PNG), for chats that show no SVG. Needs the extra ``png``."""

from functools import partial
from typing import Final

from nccl_insight.base.errors import UsageError

# Sans serif and monospaced: a drawing names the fonts of a browser, and the first pair that is installed serves.
_FONTS: Final = (
    ("DejaVu Sans", "DejaVu Sans Mono"), ("Liberation Sans", "Liberation Mono"), ("Noto Sans", "Noto Sans Mono"),
    ("Arial", "Courier New"), ("Helvetica", "Menlo"), ("Segoe UI", "Consolas"),
)  # fmt: skip
_LETTER: Final = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><text y="15">{}</text></svg>'


def png(drawing: str) -> bytes:
    """The picture of an SVG in its own size.

    Raises:
        UsageError: the library that draws it is not installed, or no font is.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise UsageError("a .png needs resvg-py: pip install 'nccl-insight[png]', or name an .svg") from error
    for sans, mono in _FONTS:
        draw = partial(resvg_py.svg_to_bytes, font_family=sans, sans_serif_family=sans, monospace_family=mono)
        if draw(_LETTER.format("M")) != draw(_LETTER.format(" ")):
            return bytes(draw(drawing))
    raise UsageError(f"a .png needs a font that is installed ({', '.join(sans for sans, _ in _FONTS)}); name an .svg")
