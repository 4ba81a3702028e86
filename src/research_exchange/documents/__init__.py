"""The language the Exchange speaks: specs, updates, evidence, and what a rule answers about them.

Frozen records over a strict JSON reader, standard library only. Raw bytes are kept, every hash is taken over them,
and nothing here judges anything: the rules are the modules beside this package.
"""

from research_exchange.documents.evidence import EvidenceFile, EvidenceLost, EvidenceShelf
from research_exchange.documents.gates import Applicability, Flag, GateResult, GateStatus, Problem, Provenance
from research_exchange.documents.json import DocumentError, JsonValue, canonical, parse
from research_exchange.documents.run_state import OutcomeReason, RunState, RunStatus, Verdict
from research_exchange.documents.spec import Arm, Spec
from research_exchange.documents.update import StoredUpdate

__all__ = [
    "Applicability",
    "Arm",
    "DocumentError",
    "EvidenceFile",
    "EvidenceLost",
    "EvidenceShelf",
    "Flag",
    "GateResult",
    "GateStatus",
    "JsonValue",
    "OutcomeReason",
    "Problem",
    "Provenance",
    "RunState",
    "RunStatus",
    "Spec",
    "StoredUpdate",
    "Verdict",
    "canonical",
    "parse",
]
