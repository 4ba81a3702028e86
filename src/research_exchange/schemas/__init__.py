"""Published JSON Schemas of everything a researcher or a runner writes, and of the judgment that comes of it.

The shapes are typed definitions (`spec_shapes`, `report_shapes`, `update_shapes`, and for the judgment the records of
the rules themselves). Running this package writes a JSON file from each, and a test holds the files against the
definitions. A schema says which shape a document has; whether what it says holds is the rules' business, which read
also what no schema admits (R-025, R-06A).
"""

from importlib.resources import files

__all__ = ["SCHEMAS", "schema_text"]

SCHEMAS = {
    "spec": "An experiment spec: the question, the methods, and how it will be decided.",
    "update": "What a runner posts: status, numbers, and every part below.",
    "deviations": "Part of an update: what was done otherwise than the spec says.",
    "initialization_provenance": "Part of an update: that paired arms started from one state.",
    "correctness_preflight": "Part of an update: measured errors of a new loss or optimizer.",
    "activation_calibration": "Part of an update: what a short pilot showed.",
    "evaluation": "Part of an update: frozen evaluators and what they scored.",
    "decision": "Part of an update: the rows that a decision is recomputed from.",
    "evidence": "Part of an update: files to retain, and checkpoints to point to.",
    "feasibility": "Part of an update: measured times, for a projection of the full run.",
    "adaptation_manifests": "Part of an update: which batches each arm consumed before it was compared.",
    "generation_audit": "Part of an update: an audit of generated training tasks.",
    "capacity_block": "Part of an update: that missing capacity stopped the run.",
    "judgment": "What the Exchange makes of a run: what rx judge --json prints and the API answers.",
    "run_document": "A whole run in one document, for rx check and rx judge.",
}
"""Every published schema by name, with what it describes."""


def schema_text(name: str) -> str:
    """A published schema as it stands in its file.

    Raises:
        KeyError: for a name that is not in `SCHEMAS`.
    """
    if name not in SCHEMAS:
        raise KeyError(name)
    return (files(__package__) / f"{name}.json").read_text(encoding="utf-8")
