"""The house rules that no other test sees: the bare core imports alone, and the repository speaks of itself."""

import re
import subprocess
import sys
import venv
from pathlib import Path

from tests.research_exchange.rules.test_bare_core import rule_modules

ROOT = Path(__file__).parent.parent


def run(*command: str | Path) -> str:
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_core_installs_alone_and_every_rule_imports(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=True)
    python = tmp_path / "bare" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", ".")
    modules = rule_modules()
    run(python, "-c", "; ".join(f"import {module}" for module in [*modules, "research_exchange.client"]))
    run(python, "-c", "from research_exchange.schemas import SCHEMAS, schema_text; [schema_text(n) for n in SCHEMAS]")
    outside = "import sys; print([m for m in ('pydantic', 'fastapi', 'sqlalchemy', 'numpy') if m in sys.modules])"
    assert run(python, "-c", f"import {', '.join(modules)}; {outside}").strip() == "[]"


def test_rx_and_spindle_say_who_they_are() -> None:
    binaries = Path(sys.executable).parent
    assert re.fullmatch(r"rx \d+\.\d+\.\d+\n", run(binaries / "rx", "--version"))
    assert re.fullmatch(r"spindle \d+\.\d+\.\d+\n", run(binaries / "spindle", "--version"))


def test_the_two_systems_are_one_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"## {version[1]}" in changelog


def test_links_between_the_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/**/*.md")]
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
