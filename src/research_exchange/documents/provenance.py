"""The `initialization_provenance` part of an update: how each arm started, with which optimizer (R-091 to R-099)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from research_exchange.documents.correctness_plan import is_pinned
from research_exchange.documents.fields import as_list, as_mapping, is_same, is_sha256, is_text, is_whole, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.json import JsonValue

__all__ = [
    "PROVENANCE",
    "ArmProvenance",
    "InitialOutput",
    "Initialization",
    "InitializationProvenance",
    "OptimizerCheck",
    "parse_provenance",
]

PROVENANCE = "initialization_provenance"
MAX_ENTRIES, MAX_CHECKS = 100, 100
"""Arms of one report, and optimizer checks of one arm: far more than a run has."""

_SERVER = "server_response"
_SCOPE = "full_initialization"
_HASH_OF_NOTHING = sha256(b"").hexdigest()
_CHECKPOINT_FIELDS = (
    "checkpoint_uri",
    "loaded_checkpoint_uri",
    "load_succeeded",
    "checkpoint_immutable",
    "checkpoint_scope",
)
_PROOF_FIELDS = frozenset({"base_checkpoint", "source", "evidence_ref", "before_first_update"})
"""What both proofs have; anything else beside them proves nothing (R-096)."""
_MEASURE = "Measure it before the first update and keep the response; a declaration proves nothing."
_STOP = "Stop: what was trained from there shows nothing. Start the arms again and report what is measured."


@dataclass(frozen=True)
class Initialization:
    """What an arm started from."""

    path: str
    base_checkpoint: str | None
    adapter_sha256: str | None
    """The measured hash of the adapter."""
    checkpoint_uri: str | None
    """The checkpoint that was loaded, by the response to the load; one that was only declared is none."""
    evidence: str | None
    """The file that shows it."""


@dataclass(frozen=True)
class OptimizerCheck:
    """What the server said about an arm's optimizer at one moment."""

    path: str
    after_restore: int
    """0 for the creation, n for the n-th restore."""
    from_server: bool
    """Otherwise the runner declares it, which shows nothing."""
    actual: str | None
    """The optimizer family."""
    config: Mapping[str, JsonValue]
    evidence: str | None


@dataclass(frozen=True)
class InitialOutput:
    """All logits or logprobs of a fixed batch before the first update, by hash."""

    path: str
    available: bool
    batch_sha256: str | None
    output_sha256: str | None
    reason: str | None
    """Why it is not available."""
    evidence: str | None


@dataclass(frozen=True)
class ArmProvenance:
    """One entry of a report."""

    path: str
    arm: str
    """As the report calls it."""
    initialization: Initialization
    restore_count: int | None
    checks: tuple[OptimizerCheck, ...]
    output: InitialOutput
    equivalence: JsonValue
    """How nearly a restored client repeated an update, as it stands (R-09E)."""
    findings: Findings
    """What the entry by itself contradicts or lacks."""


@dataclass(frozen=True)
class InitializationProvenance:
    """A parsed report; entries that name no arm are left out."""

    arms: tuple[ArmProvenance, ...]
    findings: Findings
    """About the report as a whole."""


def parse_provenance(value: JsonValue) -> InitializationProvenance:
    """Reads a report, its arms as a list or by name. Never raises."""
    report, findings = as_mapping(value), Findings()
    version = report.get("version")
    if not is_whole(version) or version != 1:
        findings.miss("R-091", f"{PROVENANCE}.version", "1", show(version), "Report version 1.")
    arms = [_arm(name, entry, path) for name, entry, path in _entries(report.get("arms"), findings)]
    return InitializationProvenance(tuple(arms), findings)


def _entries(arms: JsonValue, findings: Findings) -> Iterator[tuple[str, Mapping[str, JsonValue], str]]:
    path, action = f"{PROVENANCE}.arms", "Report one entry for each arm of the spec's groups."
    found: list[tuple[str | None, JsonValue, str]]
    found = [(key, entry, f"{path}[{show(key)}]") for key, entry in as_mapping(arms).items()]
    found += [(None, entry, f"{path}[{index}]") for index, entry in enumerate(as_list(arms))]
    if not 0 < len(found) <= MAX_ENTRIES:
        findings.miss("R-091", path, f"entries, at most {MAX_ENTRIES}", show(arms), action)
    for key, entry, where in found[:MAX_ENTRIES]:
        fields = as_mapping(entry)
        name = fields.get("arm", key)
        if is_text(name) and key in (None, name):
            yield name, fields, where
        else:
            expected = "the name of an arm" if key is None else f"{show(key)}, the key it stands under"
            findings.miss("R-091", f"{where}.arm", expected, show(name), action)


def _arm(name: str, entry: Mapping[str, JsonValue], path: str) -> ArmProvenance:
    findings = Findings()
    count = entry.get("restore_count")
    restores = count if is_whole(count) and count >= 0 else None
    if restores is None:
        action = "Count every load into this arm's client, from 0."
        findings.miss("R-097", f"{path}.restore_count", "a whole number of at least 0", show(count), action)
    return ArmProvenance(
        path=path,
        arm=name,
        initialization=_initialization(as_mapping(entry.get("initialization")), f"{path}.initialization", findings),
        restore_count=restores,
        checks=_checks(entry.get("optimizer_checks"), restores, f"{path}.optimizer_checks", findings),
        output=_output(as_mapping(entry.get("initial_output")), f"{path}.initial_output", findings),
        equivalence=entry.get("restore_equivalence"),
        findings=findings,
    )


def _initialization(fields: Mapping[str, JsonValue], path: str, findings: Findings) -> Initialization:
    base, digest = fields.get("base_checkpoint"), fields.get("adapter_sha256")
    if not is_pinned(base):
        action = "Name the base model, and the revision where the service has one."
        findings.miss("R-094", f"{path}.base_checkpoint", "a pinned base checkpoint", show(base), action)
    names_checkpoint = any(fields.get(name) is not None for name in _CHECKPOINT_FIELDS)
    if digest is not None:
        _check_hash_proof(fields, path, findings)
    elif not names_checkpoint:
        rule = "R-096" if fields.keys() - _PROOF_FIELDS - set(_CHECKPOINT_FIELDS) else "R-092"
        expected = "the measured adapter_sha256, or the checkpoint that was loaded"
        findings.miss(rule, path, expected, "neither", "Prove it by one of them; seeds and losses prove nothing.")
    if names_checkpoint:
        _check_checkpoint_proof(fields, path, findings)
    rule = "R-093" if names_checkpoint else "R-092"
    _must_be_true(fields, "before_first_update", rule, path, findings)
    declared, loaded = fields.get("checkpoint_uri"), fields.get("loaded_checkpoint_uri")
    return Initialization(
        path=path,
        base_checkpoint=base if is_text(base) else None,
        adapter_sha256=digest if is_sha256(digest) else None,
        checkpoint_uri=loaded if is_text(loaded) and loaded == declared else None,
        evidence=_evidence(fields, rule, path, findings),
    )


def _check_hash_proof(fields: Mapping[str, JsonValue], path: str, findings: Findings) -> None:
    _check_digest(fields, "adapter_sha256", "R-092", path, findings)
    source = fields.get("source")
    if source not in (_SERVER, "local_hash"):
        findings.miss("R-092", f"{path}.source", f"{_SERVER} or local_hash", show(source), _MEASURE)


def _check_checkpoint_proof(fields: Mapping[str, JsonValue], path: str, findings: Findings) -> None:
    declared, loaded = fields.get("checkpoint_uri"), fields.get("loaded_checkpoint_uri")
    for name in ("checkpoint_uri", "loaded_checkpoint_uri"):
        if not is_text(fields.get(name)):
            action = "Report both: the checkpoint asked for, and the one that the response to the load names."
            findings.miss("R-093", f"{path}.{name}", "the URI of a checkpoint", show(fields.get(name)), action)
    if is_text(declared) and is_text(loaded) and declared != loaded:
        expected = f"{show(declared)}, the checkpoint_uri"
        findings.contradict("R-093", f"{path}.loaded_checkpoint_uri", expected, show(loaded), _STOP)
    if is_text(loaded) and loaded == fields.get("base_checkpoint"):
        action = "Load a checkpoint of the adapter: arms on one base model may have different adapters."
        findings.miss("R-093", f"{path}.loaded_checkpoint_uri", "a checkpoint", "the base model alone", action)
    _must_be_true(fields, "load_succeeded", "R-093", path, findings)
    wanted: tuple[tuple[str, JsonValue], ...] = (
        ("source", _SERVER),
        ("checkpoint_immutable", True),
        ("checkpoint_scope", _SCOPE),
    )
    for name, value in wanted:
        if not is_same(fields.get(name), value):
            action = "Load an immutable checkpoint of the full initialization; the base model alone proves nothing."
            findings.miss("R-093", f"{path}.{name}", show(value), show(fields.get(name)), action)


def _checks(value: JsonValue, restores: int | None, path: str, findings: Findings) -> tuple[OptimizerCheck, ...]:
    entries = as_list(value)
    if len(entries) > MAX_CHECKS:
        findings.miss("R-097", path, f"at most {MAX_CHECKS} checks", f"{len(entries)}", "Restore less often.")
    found = [
        _check(as_mapping(entry), f"{path}[{index}]", findings) for index, entry in enumerate(entries[:MAX_CHECKS])
    ]
    checks = tuple(check for check in found if check is not None)
    seen: set[int] = set()
    for check in checks:
        where = f"{check.path}.after_restore"
        if restores is not None and check.after_restore > restores:
            expected = f"at most {restores}, the restore_count"
            action = "Report the restores that happened, each with its check."
            findings.contradict("R-097", where, expected, str(check.after_restore), action)
        if check.after_restore in seen:
            expected, action = "one check for each restore", "Keep the check that was made before the next update."
            findings.miss("R-097", where, expected, f"a second one after restore {check.after_restore}", action)
        seen.add(check.after_restore)
    missing = next((number for number in range(MAX_CHECKS + 1) if number not in seen), MAX_CHECKS)
    if restores is not None and missing <= restores:
        expected = "a check after the creation (0)" + (f" and after each of {restores} restores" if restores else "")
        action = "Ask the server after each restore, before the next update."
        findings.miss("R-097", path, expected, f"none after restore {missing}", action)
    return checks


def _check(fields: Mapping[str, JsonValue], path: str, findings: Findings) -> OptimizerCheck | None:
    number, source, actual = (fields.get(name) for name in ("after_restore", "source", "actual"))
    _must_be_true(fields, "before_next_update", "R-097", path, findings)
    from_server = source == _SERVER
    evidence = None
    if from_server:
        if not is_text(actual):
            findings.miss("R-097", f"{path}.actual", "the optimizer family", show(actual), _MEASURE)
        if not isinstance(fields.get("actual_config"), Mapping):
            found = show(fields.get("actual_config"))
            findings.miss("R-097", f"{path}.actual_config", "what the server reports", found, _MEASURE)
        evidence = _evidence(fields, "R-097", path, findings)
    elif source != "declared":
        findings.miss("R-097", f"{path}.source", f"{_SERVER} or declared", show(source), "Say where it comes from.")
    elif actual is None:
        action = "Ask the server; where none exposes its optimizer, this stays unverified."
        findings.miss("R-097", f"{path}.source", _SERVER, "declared", action)
    else:
        action = "Leave actual null: what is declared was not observed."
        findings.miss("R-097", f"{path}.actual", "null where the source is declared", show(actual), action)
    if not is_whole(number) or number < 0:
        action = "Number the creation 0 and each restore by its count."
        findings.miss("R-097", f"{path}.after_restore", "a whole number of at least 0", show(number), action)
        return None
    return OptimizerCheck(
        path=path,
        after_restore=number,
        from_server=from_server,
        actual=actual if is_text(actual) else None,
        config=as_mapping(fields.get("actual_config")),
        evidence=evidence,
    )


def _output(fields: Mapping[str, JsonValue], path: str, findings: Findings) -> InitialOutput:
    available, reason = fields.get("available"), fields.get("reason")
    batch, output = fields.get("batch_sha256"), fields.get("output_sha256")
    evidence = None
    if available is True:
        for name in ("batch_sha256", "output_sha256"):
            _check_digest(fields, name, "R-099", path, findings)
        _must_be_true(fields, "before_first_update", "R-099", path, findings)
        evidence = _evidence(fields, "R-099", path, findings)
    elif available is not False:
        findings.miss("R-099", f"{path}.available", "true or false", show(available), "Say whether it was captured.")
    elif not is_text(reason):
        action = "Say why it could not be captured."
        findings.miss("R-099", f"{path}.reason", "the reason why it is not available", show(reason), action)
    return InitialOutput(
        path=path,
        available=available is True,
        batch_sha256=batch if is_sha256(batch) else None,
        output_sha256=output if is_sha256(output) else None,
        reason=reason if is_text(reason) else None,
        evidence=evidence,
    )


def _check_digest(fields: Mapping[str, JsonValue], name: str, rule: str, path: str, findings: Findings) -> None:
    """A hash of something: two arms that hashed nothing would agree."""
    value = fields.get(name)
    if not is_sha256(value):
        findings.miss(rule, f"{path}.{name}", "64 lower-case hexadecimal digits", show(value), _MEASURE)
    elif value == _HASH_OF_NOTHING:
        findings.miss(rule, f"{path}.{name}", "the hash of what was measured", "the hash of no bytes", _MEASURE)


def _must_be_true(fields: Mapping[str, JsonValue], name: str, rule: str, path: str, findings: Findings) -> None:
    """False is the runner's own word against its proof; anything but true and false says nothing."""
    value = fields.get(name)
    if value is False:
        findings.contradict(rule, f"{path}.{name}", "true", "false", _STOP)
    elif value is not True:
        findings.miss(rule, f"{path}.{name}", "true", show(value), _MEASURE)


def _evidence(fields: Mapping[str, JsonValue], rule: str, path: str, findings: Findings) -> str | None:
    name = fields.get("evidence_ref")
    if is_text(name):
        return name
    action = "Name the retained file that shows it."
    findings.miss(rule, f"{path}.evidence_ref", "the name of a retained file", show(name), action)
    return None
