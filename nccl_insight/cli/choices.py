"""Values that options of several commands take; the parser of the command line refuses all others."""

from typing import Literal

JavaScript = Literal["inline", "cdn", "none"]
Color = Literal["auto", "always", "never"]
FailOn = Literal["error", "warning", "info", "never"]
TextOrJson = Literal["text", "json"]
Backend = Literal["nccl", "gloo"]
Level = Literal["names", "strict"]
