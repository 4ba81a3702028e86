"""`python -m research_exchange.schemas`: write every schema again from its typed definition."""

from pathlib import Path

from research_exchange.schemas.published import written_schemas


def main() -> None:
    """Writes the files beside this module."""
    for name, text in written_schemas().items():
        (Path(__file__).parent / f"{name}.json").write_text(text, encoding="utf-8")


main()
