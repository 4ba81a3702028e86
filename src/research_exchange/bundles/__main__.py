"""Verifies a bundle where nothing but this package is installed: `python -m research_exchange.bundles BUNDLE`.

BUNDLE is a zip file that `rx export` wrote, or the folder that it unpacks to. The report is printed as JSON.

Exit codes: 0 verified; 1 a byte is not as it was exported, or a judgment does not come out again; 2 there is no bundle;
3 it is as it was exported, and was judged by another version of the rules.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from research_exchange.bundles import NotABundle, VerificationStatus, verify

USAGE = 2
EXIT_CODES: Mapping[VerificationStatus, int] = {
    VerificationStatus.VERIFIED: 0,
    VerificationStatus.FAILED: 1,
    VerificationStatus.OTHER_VERSION: 3,
}


def main(arguments: Sequence[str]) -> int:
    """Prints the report and returns the exit code."""
    if list(arguments) in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if len(arguments) != 1:
        print(f"Give one bundle; {len(arguments)} were given.", file=sys.stderr)
        return USAGE
    try:
        report = verify(Path(arguments[0]))
    except (NotABundle, OSError) as trouble:
        print(trouble, file=sys.stderr)
        return USAGE
    print(json.dumps(report.to_json(), indent=2))
    return EXIT_CODES[report.status]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
