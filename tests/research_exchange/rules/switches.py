"""The rules with every check behind a switch, to see what would be believed without it.

A check is a place where a rule makes a problem or an objection, a call of a helper that makes one for it, or a row of
a table of them. The source of each rule is read, every check is put behind a switch, and the result is imported as a
second copy beside the real rules.

There are two fair ways to take a check away, for a check does one or both of two things. It says something that is held
against the run, and it may turn back what the rules cannot go on with, such as a file that is not there.

- `LEFT_OUT`: the statement is gone, as if nobody had written it; with a guard its return is gone as well, and the rules
  go on. This is the way to see whether another check would have said the same.
- `SILENCED`: the rules take the way that they take, and what the check found is not held against the run: its problems
  are dropped, and a gate that has no others is passed (R-010: a gate that is not passed has a problem). This is the
  check of somebody who turns a bad file back, so that nothing breaks, and forgets to say so.

A check is needed where a lie gets through in either way: each is a mistake that the author of a rule could make.
"""

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, lru_cache
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

import research_exchange
from research_exchange.documents.observations import MAX_PROBLEMS
from tests.research_exchange.rules.wiring import MUTED, ROW, SAID, SWITCH, Check, Wiring

__all__ = ["Check", "SwitchedRules", "Way", "switched_rules"]

PACKAGE = "research_exchange"
SOURCE = Path(research_exchange.__file__).parent
NO_GATES = frozenset(
    f"{folder}{name}"
    for folder in ("", "documents/")
    for name in ("capacity", "completeness", "credentials", "deviations", "evidence", "run_document", "updates")
)
"""Modules that refuse or flag, and stop no verdict: they have tests of their own. So has `feasibility`."""
_Value = TypeVar("_Value")


class Way(Enum):
    """How a check is taken away."""

    LEFT_OUT = "left out"
    SILENCED = "silenced"


@dataclass
class Switches:
    """Which check is off, and which ones had something to say."""

    checks: list[Check] = field(default_factory=list)
    off: int | None = None
    way: Way = Way.LEFT_OUT
    fired: set[int] = field(default_factory=set)
    silenced: list[Any] = field(default_factory=list)
    """What a silenced check has found."""
    muted: bool = False
    """Inside a helper that is left out or silenced."""
    made: int = 0

    def is_left_out(self, number: int) -> bool:
        return (self.muted or number == self.off) and self.way is Way.LEFT_OUT

    def is_on(self, number: int) -> bool:
        """Asked where a check has found something."""
        if self.is_left_out(number):
            return False
        self.fired.add(number)
        self.made += 1
        return True

    def said(self, number: int, finding: _Value) -> _Value:
        """Notes what a silenced check has found, and hands it on."""
        if self.way is Way.SILENCED and (self.muted or number == self.off):
            self.silenced.append(finding)
        return finding

    def unsaid(self, result: Any) -> Any:
        """A gate's result without what a silenced check has found; one with more problems than are kept stays so."""
        left = tuple(problem for problem in result.problems if not any(problem is each for each in self.silenced))
        if len(left) == len(result.problems) or len(result.problems) >= MAX_PROBLEMS:
            return result
        return replace(result, problems=left, **({} if left else {"status": type(result.status)("passed")}))

    def call(self, number: int, helper: Callable[[], _Value], is_statement: bool) -> _Value | None:
        """Calls a helper; with this check off, a statement is left out, and else whatever it finds is not said."""
        if is_statement and number == self.off and self.way is Way.LEFT_OUT:
            return None
        before, outer = self.made, self.muted
        self.muted = outer or number == self.off
        try:
            return helper()
        finally:
            self.muted = outer
            if self.made > before:
                self.fired.add(number)

    def keeps(self, number: int) -> bool:
        """Asked of each row of a table, whether or not it finds anything."""
        self.fired.add(number)
        return number != self.off


@dataclass(frozen=True)
class SwitchedRules:
    """The second copy."""

    switches: Switches
    modules: Mapping[str, ModuleType]
    """Those of the package, by the name that follows its own."""

    def judge(self, raw: bytes, off: Check | None = None, way: Way = Way.LEFT_OUT) -> Any:
        """The judgment of a run document, with one check off; `switches.fired` are those that spoke."""
        self.switches.off = None if off is None else off.number
        self.switches.way = way
        self.switches.fired, self.switches.silenced = set(), []
        run = self.modules["documents.run_document"].RunDocument.parse(raw)
        return self.modules["judgment"].judge(run.spec, run.updates, run.evidence, ended=run.ended)


@cache
def switched_rules() -> SwitchedRules:
    """Imports the second copy; the real modules stay what they are."""
    switches = Switches()
    real = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == PACKAGE}
    finder = _Finder(switches)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(f"{PACKAGE}.judgment")
        importlib.import_module(f"{PACKAGE}.documents.run_document")
        _read_once(switches)
        _leave_unsaid(switches, sys.modules[f"{PACKAGE}.judgment"])
        modules = {name.partition(".")[2]: sys.modules[name] for name in sys.modules if name.split(".")[0] == PACKAGE}
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]
        sys.modules.update(real)
    return SwitchedRules(switches, modules)


def _leave_unsaid(switches: Switches, judgment: Any) -> None:
    """Every gate is asked for its result without what a silenced check has found, that of the decision included."""
    decided, gated = judgment.hold_against_evidence, judgment.all_gates

    def all_gates(*arguments: Any) -> Any:
        gates = gated(*arguments)
        return gates._replace(results=tuple(map(switches.unsaid, gates.results)))

    judgment.hold_against_evidence = lambda *arguments: switches.unsaid(decided(*arguments))
    judgment.all_gates = all_gates


def _read_once(switches: Switches) -> None:
    """Files are the same in nearly every lie, so each is read once with the same check off."""
    for module, name in (("decision", "read_file"), ("predictions", "read_predictions")):
        users = [each for each in sys.modules.values() if each.__name__.startswith(PACKAGE) and hasattr(each, name)]
        read = getattr(sys.modules[f"{PACKAGE}.{module}"], name)
        once = _once(read, switches)
        for user in users:
            setattr(user, name, once)


def _once(read: Callable[..., Any], switches: Switches) -> Callable[..., Any]:
    @lru_cache(maxsize=400)
    def remembered(off: int | None, way: Way, *arguments: Any) -> tuple[Any, set[int], list[Any]]:
        outer = switches.fired, switches.silenced
        switches.fired, switches.silenced = set(), []
        value, fired, silenced = read(*arguments), switches.fired, switches.silenced
        switches.fired, switches.silenced = outer
        return value, fired, silenced

    def call(*arguments: Any) -> Any:
        readers = ("documents/observations", "documents/json", "predictions")
        off = switches.off
        matters = off is not None and switches.checks[off].module in readers
        value, fired, silenced = remembered(off if matters else None, switches.way, *arguments)
        switches.fired |= fired
        switches.silenced += silenced
        return value

    return call


class _Finder(MetaPathFinder):
    """Finds the package's modules with switches built in."""

    def __init__(self, switches: Switches) -> None:
        self._switches = switches

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.split(".")[0] != PACKAGE:
            return None
        file = SOURCE.joinpath(*fullname.split(".")[1:])
        is_package = file.is_dir()
        file = file / "__init__.py" if is_package else file.with_suffix(".py")
        if not file.is_file():
            return None
        spec = spec_from_loader(fullname, _Loader(file, self._switches), is_package=is_package)
        assert spec is not None
        if is_package:
            spec.submodule_search_locations = [str(file.parent)]
        return spec


class _Loader(InspectLoader):
    def __init__(self, file: Path, switches: Switches) -> None:
        self._file = file
        self._switches = switches

    def get_source(self, fullname: str) -> str:
        return self._file.read_text(encoding="utf-8")

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_source(fullname))
        module = self._file.relative_to(SOURCE).with_suffix("").as_posix()
        if module not in NO_GATES and "feasibility" not in module:
            tree = ast.fix_missing_locations(Wiring(tree, module, self._switches.checks).wired())
        return compile(tree, f"<{module} with switches>", "exec")

    def exec_module(self, module: ModuleType) -> None:
        switches = self._switches
        vars(module).update({SWITCH: switches.is_on, SAID: switches.said, MUTED: switches.call, ROW: switches.keeps})
        exec(self.get_code(module.__name__), vars(module))
