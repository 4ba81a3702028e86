"""The options that say where an Exchange keeps what it was told."""

from typing import Annotated

import typer

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="RX_DATABASE_URL",
        show_envvar=False,
        help="The database, as postgresql://USER:PASSWORD@HOST/NAME; by default $RX_DATABASE_URL, else a file in the "
        "data folder.",
    ),
]
EvidenceUrl = Annotated[
    str | None,
    typer.Option(
        envvar="RX_EVIDENCE_URL",
        show_envvar=False,
        help="Where evidence is kept, as s3://BUCKET/PREFIX?endpoint=URL; by default $RX_EVIDENCE_URL, else in the "
        "data folder.",
    ),
]
