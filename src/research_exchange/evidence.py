"""Which files a run may retain, and what it may point to (contract §14).

A file is admitted or refused by itself: a refused one is not stored and never costs the update that carried it.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from urllib.parse import SplitResult, urlsplit

from research_exchange.credentials import find_credential, names_credential_file
from research_exchange.documents.evidence import KINDS, EvidenceFile
from research_exchange.documents.fields import as_list, as_mapping, is_sha256, is_text, is_whole, show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue

__all__ = [
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_NAME_BYTES",
    "MAX_RUN_BYTES",
    "Admission",
    "AdmissionStatus",
    "InlineFile",
    "Offer",
    "admit",
    "admit_offer",
    "checkpoint_problems",
    "credential_problems",
    "inline_file",
    "inline_files",
    "offer",
    "source_url_problems",
]

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_FILES = 64
MAX_RUN_BYTES = 40 * 1024 * 1024
"""Over all accepted files of a run, decoded."""
MAX_NAME_BYTES = 200


class AdmissionStatus(StrEnum):
    """What becomes of a file that was offered."""

    ACCEPTED = "accepted"
    """Store it."""
    UNCHANGED = "unchanged"
    """The run holds these very bytes under this name already: nothing to do."""
    REJECTED = "rejected"
    """Do not store it."""


@dataclass(frozen=True)
class Admission:
    status: AdmissionStatus
    kind: str
    """The kind to store it under: an unknown one becomes `other`."""
    sha256: str
    problems: tuple[Problem, ...] = ()
    """Why it was rejected; on an accepted file, what a reader should notice."""


@dataclass(frozen=True)
class Offer:
    """A file as it was received: all that there is to know of it before its run is looked at."""

    name: str
    kind: str
    sha256: str
    """Of the bytes received."""
    size: int
    declared_sha256: str | None
    credentials: tuple[Problem, ...]
    """What looks like one, in the content (R-169)."""


@dataclass(frozen=True)
class InlineFile:
    """One entry of an update's `evidence.files`."""

    path: str
    """Where it stands in the update: `evidence.files[2]`."""
    name: str
    kind: str
    content: bytes | None
    """None where the entry cannot be taken; `problems` says why."""
    declared_sha256: str | None
    problems: tuple[Problem, ...] = ()
    source_url: str | None = None
    """Where the content is, for an entry that has it elsewhere; `problems` then says that nobody has fetched it."""


def admit(
    name: str, kind: str, content: bytes, *, declared_sha256: str | None, existing: Sequence[EvidenceFile]
) -> Admission:
    """Decides whether a run may retain a file.

    Args:
        name: A plain file name (R-164).
        kind: One of `documents.evidence.KINDS` (R-161).
        content: The original bytes.
        declared_sha256: The hash the runner gave, if any; it must be that of the bytes (R-165).
        existing: The files this run has retained so far.
    """
    return admit_offer(offer(name, kind, content, declared_sha256=declared_sha256), existing)


def offer(name: str, kind: str, content: bytes, *, declared_sha256: str | None) -> Offer:
    """Looks at a file by itself; this is what takes time."""
    return Offer(
        name=name,
        kind=kind,
        sha256=sha256(content).hexdigest(),
        size=len(content),
        declared_sha256=declared_sha256,
        credentials=credential_problems(name, content),
    )


def admit_offer(file: Offer, existing: Sequence[EvidenceFile]) -> Admission:
    """Decides whether a run that holds `existing` may retain a file. It looks at no content, so it is quick."""
    stored_kind = file.kind if file.kind in KINDS else "other"
    held = next((each for each in existing if each.name == file.name), None)
    problems = _name_problems(file.name) + _hash_problems(file)
    if held is not None and held.sha256 != file.sha256:
        problems += (_name_is_taken(file.name),)
    if problems:
        return Admission(AdmissionStatus.REJECTED, stored_kind, file.sha256, problems)
    if held is not None:
        return Admission(AdmissionStatus.UNCHANGED, held.kind, file.sha256)
    problems = _cap_problems(file, existing) + file.credentials
    if problems:
        return Admission(AdmissionStatus.REJECTED, stored_kind, file.sha256, problems)
    return Admission(AdmissionStatus.ACCEPTED, stored_kind, file.sha256, _notes(file.name, file.kind, existing))


def credential_problems(name: str, content: bytes) -> tuple[Problem, ...]:
    """What looks like a credential in a file's content (R-169)."""
    found = find_credential(content)
    if found is None:
        return ()
    action = "Remove it, revoke it if it was real, and send the file under a new name."
    return (Problem("R-169", name, "no credentials", f"{found.what} in line {found.line}", action),)


def inline_files(body: Mapping[str, JsonValue]) -> tuple[InlineFile, ...]:
    """The files an update carries in `evidence.files`, in order; each goes through `admit` before it is stored."""
    files = as_mapping(body.get("evidence")).get("files")
    if files is not None and not isinstance(files, list):
        path = "evidence.files"
        problem = Problem("R-160", path, "a list of files", show(files), "Send each file as an object in a list.")
        return (InlineFile(path, "", "other", None, None, (problem,)),)
    return tuple(inline_file(entry, f"evidence.files[{index}]") for index, entry in enumerate(as_list(files)))


def source_url_problems(url: str, allowed_hosts: Collection[str], path: str = "source_url") -> tuple[Problem, ...]:
    """What stands against fetching an attachment from a URL (R-166); nothing is fetched here.

    The URL itself is never repeated: it may carry a secret.
    """
    parts = _split(url)
    if parts is None:
        return (_bad_url(path, "a URL", "text that is none"),)
    checks = (
        (parts.scheme == "https", "an https URL", f"the scheme {show(parts.scheme)}"),
        (parts.hostname in allowed_hosts, "a host on the list of attachment hosts", f"the host {show(parts.hostname)}"),
        ("/attachments/" in parts.path, "a path with /attachments/", "another path"),
        ("@" not in parts.netloc, "no user or password", "one of them"),
        (":" not in parts.netloc.rpartition("@")[2], "no port", "a port"),
        (not parts.fragment and ".." not in parts.path, "a plain path", "a fragment or a relative step"),
    )
    return tuple(_bad_url(path, expected, found) for holds, expected, found in checks if not holds)


def checkpoint_problems(entry: JsonValue, arms: Collection[str], path: str) -> tuple[Problem, ...]:
    """What stands against one entry of `evidence.checkpoints` (R-16A). `arms` empty: the spec names none."""
    checkpoint = as_mapping(entry)
    arm, step, uri = checkpoint.get("arm"), checkpoint.get("step"), checkpoint.get("uri")
    problems = []
    if not is_text(arm) or (arms and arm not in arms):
        expected = f"an arm of the spec ({show_names(tuple(arms))})" if arms else "the name of an arm"
        problems.append(Problem("R-16A", f"{path}.arm", expected, show(arm), "Name the arm that was trained."))
    if not is_whole(step) or step < 0:
        problems.append(
            Problem("R-16A", f"{path}.step", "a step of at least 0", show(step), "Give the step as a number.")
        )
    if not isinstance(uri, str) or _CHECKPOINT_URI.fullmatch(uri) is None:
        expected, action = (
            "a reference such as tinker://<id>/weights/<name>",
            "Give the URI without credentials or query.",
        )
        problems.append(Problem("R-16A", f"{path}.uri", expected, "something else", action))
    return tuple(problems)


_CHECKPOINT_URI = re.compile(r"tinker://[A-Za-z0-9._:-]{1,200}(?:/[A-Za-z0-9._+=-]{1,200}){1,8}")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def inline_file(entry: JsonValue, path: str) -> InlineFile:
    """Reads one file that stands in a JSON document: `{name, kind, content | source_url, sha256?}` (R-160, R-165)."""
    file = as_mapping(entry)
    name, kind, declared = file.get("name"), file.get("kind"), file.get("sha256")
    content, url = file.get("content"), file.get("source_url")
    problems = []
    if not isinstance(name, str):
        problems.append(Problem("R-160", f"{path}.name", "a file name", show(name), "Name the file."))
    if not isinstance(kind, str):
        problems.append(
            Problem("R-161", f"{path}.kind", "one of the kinds", show(kind), f"Use one of {', '.join(KINDS)}.")
        )
    if declared is not None and not isinstance(declared, str):
        problems.append(
            Problem("R-165", f"{path}.sha256", "64 hexadecimal digits", show(declared), "Correct or omit it.")
        )
    if (content is None) == (url is None):
        found = "neither" if content is None else "both"
        problems.append(Problem("R-165", path, "exactly one of content and source_url", found, "Send the content."))
    elif url is not None:
        found, action = "a source_url", "Send the content here, or upload the bytes by themselves."
        problems.append(Problem("R-166", f"{path}.source_url", "content: this Exchange fetches nothing", found, action))
    elif not isinstance(content, str):
        problems.append(
            Problem("R-165", f"{path}.content", "a UTF-8 string", show(content), "Send text, or upload bytes.")
        )
    return InlineFile(
        path=path,
        name=name if isinstance(name, str) else "",
        kind=kind if isinstance(kind, str) else "other",
        source_url=url if isinstance(url, str) and [problem.rule for problem in problems] == ["R-166"] else None,
        content=None if problems or not isinstance(content, str) else content.encode("utf-8"),
        declared_sha256=declared if isinstance(declared, str) else None,
        problems=tuple(problems),
    )


def _name_problems(name: str) -> tuple[Problem, ...]:
    if names_credential_file(name):
        action = "Keep it out of the evidence; scripts may read the environment."
        return (Problem("R-169", "name", "no file of credentials", "the name of one", action),)
    if found := find_credential(name.encode("utf-8", "replace")):
        action = "Rename the file, and revoke the credential if it was real."
        return (Problem("R-169", "name", "no credentials", found.what, action),)
    checks = (
        (bool(name.strip()), "a name", "an empty one"),
        (
            len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES,
            f"at most {MAX_NAME_BYTES} bytes",
            f"{len(name)} characters",
        ),
        (not set("/\\") & set(name) and ".." not in name, "a plain file name, no folder", show(name)),
        (not name.startswith("."), "a name without a leading dot", show(name)),
        (not any(unicodedata.category(c) in _HIDDEN_CATEGORIES for c in name), "visible characters", "a hidden one"),
    )
    action = "Rename the file."
    return tuple(Problem("R-164", "name", expected, found, action) for holds, expected, found in checks if not holds)


def _hash_problems(file: Offer) -> tuple[Problem, ...]:
    declared = file.declared_sha256
    if declared is None or declared == file.sha256:
        return ()
    expected = (
        f"{file.sha256}, the hash of the bytes received" if is_sha256(declared) else "64 lower-case hexadecimal digits"
    )
    action = f"Hash the original bytes of {show(file.name)} and send them unchanged."
    return (Problem("R-165", "sha256", expected, show(declared), action),)


def _name_is_taken(name: str) -> Problem:
    return Problem(
        "R-164", "name", "a new name", f"{show(name)}, which this run holds with other bytes", "Use a new name."
    )


def _cap_problems(file: Offer, existing: Sequence[EvidenceFile]) -> tuple[Problem, ...]:
    total = sum(each.size for each in existing) + file.size
    checks = (
        (file.size, MAX_FILE_BYTES, "bytes in a file", "Split the file, or leave out what no rule needs."),
        (len(existing) + 1, MAX_FILES, "files in a run", "Put related records into one file."),
        (total, MAX_RUN_BYTES, "bytes in a run", "Keep what the decision needs, and leave out logs."),
    )
    return tuple(
        Problem("R-163", file.name, f"at most {most} {what}", f"{count}", action)
        for count, most, what, action in checks
        if count > most
    )


def _notes(name: str, kind: str, existing: Sequence[EvidenceFile]) -> tuple[Problem, ...]:
    notes = []
    if kind not in KINDS:
        action = "It is kept as other; a rule that looks for a kind will not find it."
        notes.append(Problem("R-161", "kind", f"one of {', '.join(KINDS)}", show(kind), action))
    alike = next((file.name for file in existing if _folded(file.name) == _folded(name)), None)
    if alike is not None:
        action = "It is kept; names that differ by more than case are easier to tell apart."
        notes.append(Problem("R-164", "name", "a name unlike the others", f"{show(name)} beside {show(alike)}", action))
    return tuple(notes)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.hostname else None
    except ValueError:
        return None


def _bad_url(path: str, expected: str, found: str) -> Problem:
    return Problem(
        "R-166", path, expected, found, "Send the content, or attach the file where the runner's service keeps it."
    )
