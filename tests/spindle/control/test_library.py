"""Several owners on one catalogue."""

from pathlib import Path

import pytest

from spindle.backends.contract import UserError
from spindle.control.catalogue import Catalogue
from spindle.control.errors import NotFoundError
from spindle.control.library import Library
from spindle.control.paths import Kind
from tests.spindle.control.saving import path, save, start_run

ALICE, BOB = "a:train:0", "b:train:0"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    catalogue = Catalogue(tmp_path)
    start_run(catalogue, ALICE, "alice", "papers")
    start_run(catalogue, BOB, "bob")
    for run in (ALICE, BOB):
        save(catalogue, path("one", run=run), run)
        save(catalogue, path("two", Kind.SAMPLER, run), run)
    return Library(catalogue)


def test_an_owner_sees_what_is_theirs_newest_first(library: Library) -> None:
    assert [run.run_id for run in library.runs("alice")] == [ALICE]
    assert [str(found.path) for found in library.checkpoints("alice")] == [
        f"tinker://{ALICE}/sampler_weights/two",
        f"tinker://{ALICE}/weights/one",
    ]
    assert (library.runs("carol"), library.checkpoints("carol")) == ([], [])
    assert [run.run_id for run in library.runs("alice", project_id="papers")] == [ALICE]
    assert library.runs("alice", project_id="other") == []


def test_what_is_private_is_not_there_for_others(library: Library) -> None:
    private = path("one", run=ALICE)
    for look in (library.find, library.own):
        assert look("alice", private)
        with pytest.raises(NotFoundError, match="There is no checkpoint"):
            look("bob", private)
    with pytest.raises(NotFoundError, match="There is no training run"):
        library.run("bob", ALICE)
    with pytest.raises(UserError, match="There is no checkpoint"), library.reading("bob", private):
        pass
    with pytest.raises(NotFoundError):
        library.copy("bob", private, "b2:train:0", None, None)
    assert library.checkpoints("bob", ALICE) == []


def test_what_is_public_can_be_read_by_others_and_changed_by_none_of_them(library: Library) -> None:
    public = path("one", run=ALICE)
    library.catalogue.set_public(public, True)
    assert library.find("bob", public).path == public
    with library.reading("bob", public) as found:
        assert found.path == public
    assert [found.path for found in library.checkpoints("bob", ALICE)] == [public]
    assert library.run("bob", ALICE).owner == "alice"
    assert [run.run_id for run in library.runs("bob")] == [BOB]
    assert [run.run_id for run in library.runs("bob", others=True)] == [BOB, ALICE]
    with pytest.raises(NotFoundError):
        library.own("bob", public)


def test_a_copy_belongs_to_who_made_it_and_is_made_once(library: Library) -> None:
    source = path("one", run=ALICE)
    library.catalogue.set_public(source, True)
    copies = [library.copy("bob", source, "b2:train:0", "archive", None) for _ in range(2)]
    assert copies == [path("one", run="b2:train:0")] * 2
    run = library.run("bob", "b2:train:0")
    assert (run.owner, run.project_id, run.copied_from) == ("bob", "archive", str(source))
    assert run.user_metadata == {"renderer_name": "chat"}
    assert len(library.checkpoints("bob", "b2:train:0")) == 1
    with pytest.raises(UserError, match="b2:train:0 exists already"):
        library.copy("bob", path("two", Kind.SAMPLER, BOB), "b2:train:0", "archive", None)
    with pytest.raises(UserError, match="b:train:0 exists already"):
        library.copy("bob", source, BOB, "archive", None)


def test_the_last_request_is_remembered_and_guessed_from_the_disk_after_a_restart(
    library: Library, tmp_path: Path
) -> None:
    run = library.run("alice", ALICE)
    saved = library.checkpoints("alice")[0].created_at
    assert library.last_request(run) == saved
    library.requested(ALICE)
    assert library.last_request(run) > saved
    assert Library(Catalogue(tmp_path)).last_request(run) == saved


def test_the_runs_of_a_session_move_to_a_project(library: Library, tmp_path: Path) -> None:
    library.catalogue.assign_project("a", "archive")
    assert [run.run_id for run in Library(Catalogue(tmp_path)).runs("alice", project_id="archive")] == [ALICE]
    assert library.runs("bob", project_id="archive") == []
