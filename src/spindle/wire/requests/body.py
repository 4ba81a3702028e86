"""What all bodies share: unknown fields are ignored, and what does not fit is told in one sentence."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError


def _as_text(metadata: object) -> object:
    return {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else metadata or {}


Metadata = Annotated[dict[str, str], BeforeValidator(_as_text)]
"""What users say about their things: text by name, whatever they put in."""


Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""An integer of 64 bits; JSON has longer ones."""


class Body(BaseModel):
    model_config = ConfigDict(protected_namespaces=(), extra="ignore")


def sentence(error: ValidationError) -> str:
    """What is wrong with a body: the first problem, where it is, and what was found."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"]) or "the body"
    found = "" if problem["type"] == "missing" else f", found {str(problem['input'])[:80]!r}"
    return f"{where}: {problem['msg']}{found}."
