"""How deeply JSON is nested, measured before a parser reads it.

Python's parser raises RecursionError for JSON with a thousand levels. On Python 3.11 the garbage collector can run at
that depth. Then every finalizer in the process that needs a few frames fails, such as the one that returns a connection
to its pool.
"""

import json
import re
from itertools import accumulate

MAX_DEPTH = 200
# Everything that is not a bracket. A string is matched whole, because it can contain brackets. One without an end is
# matched up to the end of the text: otherwise a text of escaped quotes would take quadratic time.
_OTHERS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[^][{}"]++', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def is_nested_too_deeply(text: bytes) -> bool:
    """Return whether JSON has more than 200 levels, in any encoding that Python's parser detects."""
    if (encoding := json.detect_encoding(text)) not in {"utf-8", "utf-8-sig"}:
        text = text.decode(encoding, "replace").encode(errors="replace")
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    brackets = _OTHERS.sub(b"", text)
    return any(depth > MAX_DEPTH for depth in accumulate(map(_STEPS.__getitem__, brackets)))
