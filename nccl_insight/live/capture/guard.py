"""Ends process groups when the process that started them is gone: run as a script, with a pipe as its input.

Lines: ``+N`` a group to end, ``-N`` a group that is gone, ``done`` nothing is left. The end of the input without
``done`` means that the other side died.
"""

import os
import signal
import sys
import time

_GRACE_S = 2.0


def main() -> int:
    """Reads the groups; ends them, politely first, if the input ends without ``done``."""
    groups: set[int] = set()
    for line in sys.stdin:
        word = line.strip()
        if word == "done":
            return 0
        if word[:1] == "+":
            groups.add(int(word[1:]))
        elif word[:1] == "-":
            groups.discard(int(word[1:]))
    for number, wait_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, 0.0)):
        for group in groups:
            try:
                os.killpg(group, number)
                os.killpg(group, signal.SIGCONT)
            except OSError:
                continue
        time.sleep(wait_s if groups else 0.0)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
