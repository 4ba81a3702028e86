"""The commands for whoever looks after an Exchange: backup, restore, and throwing away what is of no more use."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from research_exchange.cli.console import NOT_WELL, AsJson, UsageProblem, print_json
from research_exchange.cli.exchange import Data, data_folder
from research_exchange.cli.places import DatabaseUrl, EvidenceUrl

if TYPE_CHECKING:
    from research_exchange.store import Store
    from research_exchange.store.backups import Manifest

Backup = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, one file.")]


def backup(
    file: Backup,
    data: Data = None,
    database_url: DatabaseUrl = None,
    evidence_url: EvidenceUrl = None,
    as_json: AsJson = False,
) -> None:
    """Write all that an Exchange keeps into one new file; it may be serving meanwhile."""
    from research_exchange.store import utc_now
    from research_exchange.store.backups import FileExists, back_up

    if not file.absolute().parent.is_dir():
        raise UsageProblem(f"There is no folder {file.parent} for the backup; make it, or name another file.")
    with _existing_store(data_folder(data), database_url, evidence_url) as store:
        try:
            manifest = back_up(store, file, utc_now())
        except FileExists as error:
            raise UsageProblem(str(error)) from None
    if as_json:
        print_json({"file": str(file), **asdict(manifest)})
    else:
        typer.echo(f"{file} holds {_contents(manifest)}.")
        for digest in manifest.lost:
            typer.echo(f"Evidence {digest} is gone or damaged, so it is not in the backup.", err=True)
    if manifest.lost:
        raise typer.Exit(NOT_WELL)


def restore(
    file: Backup,
    data: Data = None,
    database_url: DatabaseUrl = None,
    evidence_url: EvidenceUrl = None,
    as_json: AsJson = False,
) -> None:
    """Bring a backup back into an empty place, with every byte hashed again."""
    from research_exchange.server import opening
    from research_exchange.store.backups import BadBackup, NotEmpty, open_backup
    from research_exchange.store.backups import restore as restore_backup

    folder = data_folder(data)
    try:
        with open_backup(file) as opened, opening(folder):
            restore_backup(opened, folder, database_url, evidence_url)
            manifest = opened.manifest
    except (BadBackup, NotEmpty) as error:
        raise UsageProblem(str(error)) from None
    except FileNotFoundError:
        raise UsageProblem(f"There is no {file}; name a file that `rx backup` wrote.") from None
    if as_json:
        print_json({"data": str(folder), **asdict(manifest)})
    else:
        typer.echo(f"Restored and verified, as of {manifest.made_at[:16]} UTC: {_contents(manifest)}.")


def prune(
    days: Annotated[int, typer.Option(min=1, help="What is younger than this many days stays.")] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and throw nothing away.")] = False,
    data: Data = None,
    database_url: DatabaseUrl = None,
    evidence_url: EvidenceUrl = None,
    as_json: AsJson = False,
) -> None:
    """Throw away caches, ended tokens, delivery logs and bytes that nothing names; never what was acknowledged."""
    from research_exchange.store import utc_now
    from research_exchange.store.pruning import prune as prune_store

    with _existing_store(data_folder(data), database_url, evidence_url) as store:
        pruned = prune_store(store, utc_now(), timedelta(days=days), dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **asdict(pruned)})
        return
    typer.echo("Would go:" if dry_run else "Thrown away:")
    for kind, count in asdict(pruned).items():
        typer.echo(f"{count:>8}  {kind.replace('_', ' ')}")


def _contents(manifest: "Manifest") -> str:
    counts = {"run": manifest.rows["runs"], "update": manifest.rows["updates"], "file": manifest.blobs}
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())


@contextmanager
def _existing_store(folder: Path, database_url: str | None, evidence_url: str | None) -> Iterator["Store"]:
    from research_exchange.server import opening
    from research_exchange.store import Store
    from research_exchange.store.store import DATABASE_FILE

    if database_url is None and not (folder / DATABASE_FILE).exists():
        raise UsageProblem(f"There is no Exchange in {folder}; name its folder with --data.")
    with opening(folder):
        store = Store.open(folder, database_url, evidence_url)
    try:
        yield store
    finally:
        store.close()
