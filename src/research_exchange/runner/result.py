"""The RESULT that an agent prints when it posted no final update (Q18): a JSON object after a line that says RESULT.

    RESULT
    ```json
    {"status": "succeeded", "verdict": "inconclusive", ...}
    ```

The last one counts. The fence around the object is optional, and so are marks around the word, as in `**RESULT:**`.
"""

import json
import re

from research_exchange.documents.json import DocumentError, JsonValue, parse

__all__ = ["find_result"]

_OPENING = re.compile(r"^[\s#*_>`]*RESULT[\s*_:`]*(?:```+\w*\s*)?(?=\{)", re.MULTILINE)


def find_result(said: str) -> dict[str, JsonValue] | None:
    """The last RESULT in what an agent said; None where there is none that is strict JSON."""
    for opening in reversed(list(_OPENING.finditer(said))):
        try:
            _, end = json.JSONDecoder().raw_decode(said, opening.end())
            result = parse(said[opening.end() : end].encode())
        except (ValueError, DocumentError):
            continue
        if isinstance(result, dict):
            return result
    return None
