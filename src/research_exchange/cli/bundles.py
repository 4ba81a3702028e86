"""`rx export` and `rx verify`: a run in one file, and whether such a file can be believed."""

import sys
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from research_exchange.cli.console import NOT_CHECKED, NOT_WELL, WELL, AsJson, UsageProblem, display, replace_file
from research_exchange.cli.exchange import Address, Data, RunId, connected_exchange


def export(
    run_id: RunId,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to write it, - for stdout; by default RUN.zip here.")
    ] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write a run to one file: everything that its judgment can be recomputed from, anywhere and offline.

    The same run is the same bytes each time. A file that is there already is replaced.
    """
    from research_exchange.terminal.bundles import exported_line

    with connected_exchange(data, exchange) as connected:
        content = connected.bundle(run_id)
    if file == Path("-"):
        sys.stdout.buffer.write(content)
        return
    path = file or Path(f"{run_id}.zip")
    replace_file(path, content)
    written = {"run": run_id, "file": str(path), "size": len(content), "sha256": sha256(content).hexdigest()}
    display(written, exported_line, as_json)


def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What rx export wrote, packed or unpacked.")],
    as_json: AsJson = False,
) -> None:
    """Verify a bundle: every byte is as it was exported, and every judgment in it comes out again.

    Ends with 1 when something does not, and with 3 when it was judged by another version of the rules.
    """
    from research_exchange.bundles import NotABundle, VerificationStatus
    from research_exchange.bundles import verify as verify_bundle
    from research_exchange.terminal.bundles import verification_report

    try:
        report = verify_bundle(bundle)
    except NotABundle as trouble:
        raise UsageProblem(str(trouble)) from None
    except OSError as trouble:
        raise UsageProblem(f"{bundle} cannot be read: {trouble.strerror}.") from None
    display(report.to_json(), verification_report, as_json)
    codes = {VerificationStatus.VERIFIED: WELL, VerificationStatus.FAILED: NOT_WELL}
    raise typer.Exit(codes.get(report.status, NOT_CHECKED))
