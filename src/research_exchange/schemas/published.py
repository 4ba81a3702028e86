"""Every published schema as its file has to say it."""

import json
from collections.abc import Mapping

from research_exchange.judgment import Judgment
from research_exchange.schemas import SCHEMAS
from research_exchange.schemas.generator import json_schema
from research_exchange.schemas.report_shapes import (
    ActivationCalibration,
    AdaptationManifest,
    CorrectnessReport,
    Evaluation,
    Feasibility,
    GenerationAudit,
    InitializationProvenance,
)
from research_exchange.schemas.spec_shapes import Spec
from research_exchange.schemas.update_shapes import CapacityBlock, Decision, Deviation, Evidence, RunDocument, Update

__all__ = ["written_schemas"]

_KINDS: Mapping[str, object] = {
    "spec": Spec,
    "update": Update,
    "deviations": list[Deviation],
    "initialization_provenance": InitializationProvenance,
    "correctness_preflight": CorrectnessReport,
    "activation_calibration": ActivationCalibration,
    "evaluation": Evaluation,
    "decision": Decision,
    "evidence": Evidence,
    "feasibility": Feasibility,
    "adaptation_manifests": list[AdaptationManifest],
    "generation_audit": GenerationAudit,
    "capacity_block": CapacityBlock,
    "judgment": Judgment,
    "run_document": RunDocument,
}


def written_schemas() -> dict[str, str]:
    """The text of each file, by the name of its schema."""
    schemas = {name: json_schema(name, SCHEMAS[name], kind) for name, kind in _KINDS.items()}
    return {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}
