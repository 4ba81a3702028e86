"""The rules run in a runner's session, where nothing but the interpreter may be installed (R-233)."""

import subprocess
import sys
from pathlib import Path

import research_exchange.judgment

SOURCE = Path(research_exchange.judgment.__file__).parents[1]


def test_the_rules_import_without_any_installed_package() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import research_exchange.judgment; "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in done.stdout.strip("[]\n").replace("'", "").split(", ")}
    assert modules <= {"research_exchange", "__main__"}
