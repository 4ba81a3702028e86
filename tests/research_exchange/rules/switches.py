"""The rules with every check behind a switch, to see what would be believed without it.

A check is a place where a rule makes a problem or an objection, a call of a helper that makes one for it, or a row of
a table of them. The source of each rule is read, every check is put behind a switch, and the result is imported as a
second copy beside the real rules.
"""

import ast
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

import research_exchange

__all__ = ["Check", "SwitchedRules", "switched_rules"]

PACKAGE = "research_exchange"
SOURCE = Path(research_exchange.__file__).parent
NO_GATES = frozenset(
    f"{folder}{name}"
    for folder in ("", "documents/")
    for name in ("capacity", "completeness", "credentials", "deviations", "evidence", "run_document", "updates")
)
"""Modules that refuse or flag, and stop no verdict: they have tests of their own. So has `feasibility`."""
MAKERS = frozenset({"Problem", "Objection"})
NAMED_HELPERS = frozenset({"_count", "_file", "_flag", "_limit", "_miss", "_require", "_false_count"})
"""Helpers that know the rule, and are told the name of what is wrong."""
SWITCH, MUTED, ROW = "__switch__", "__muted__", "__row__"

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Check:
    """One check of the rules."""

    number: int
    module: str
    line: int
    function: str
    source: str
    subject: str | None
    """What a row of a table is about; None for any other check."""
    before: int
    """How many checks of the same words stand before it in its function."""

    @property
    def site(self) -> str:
        """A name that lasts while lines move."""
        again = f" ({self.before + 1})" if self.before else ""
        return f"{self.module}, {self.function}{again}: {self.source}"

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line} in {self.function}: {self.source}"


@dataclass
class Switches:
    """Which check is off, and which ones had something to say."""

    checks: list[Check] = field(default_factory=list)
    off: int | None = None
    fired: set[int] = field(default_factory=set)
    muted: bool = False
    made: int = 0

    def is_on(self, number: int) -> bool:
        """Asked where a check has found something."""
        if self.muted or number == self.off:
            return False
        self.fired.add(number)
        self.made += 1
        return True

    def call(self, number: int, helper: Callable[[], _Value], is_statement: bool) -> _Value | None:
        """Calls a helper; with this check off, a statement is left out, and else whatever it finds is not said."""
        if is_statement and number == self.off:
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

    def judge(self, raw: bytes, off: int | None = None) -> Any:
        """The judgment of a run document, with one check off; `switches.fired` are those that spoke."""
        self.switches.off = off
        self.switches.fired = set()
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
        modules = {name.partition(".")[2]: sys.modules[name] for name in sys.modules if name.split(".")[0] == PACKAGE}
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]
        sys.modules.update(real)
    return SwitchedRules(switches, modules)


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
    def remembered(off: int | None, *arguments: Any) -> tuple[Any, frozenset[int]]:
        outer, switches.fired = switches.fired, set()
        value, fired = read(*arguments), frozenset(switches.fired)
        switches.fired = outer
        return value, fired

    def call(*arguments: Any) -> Any:
        readers = ("documents/observations", "documents/json", "predictions")
        off = switches.off
        matters = off is not None and switches.checks[off].module in readers
        value, fired = remembered(off if matters else None, *arguments)
        switches.fired |= fired
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
            tree = ast.fix_missing_locations(_Wiring(tree, module, self._switches).wired())
        return compile(tree, f"<{module} with switches>", "exec")

    def exec_module(self, module: ModuleType) -> None:
        switches = self._switches
        vars(module).update({SWITCH: switches.is_on, MUTED: switches.call, ROW: switches.keeps})
        exec(self.get_code(module.__name__), vars(module))


class _Wiring:
    """Puts the checks of one module behind switches."""

    def __init__(self, tree: ast.Module, module: str, switches: Switches) -> None:
        self._tree = tree
        self._module = module
        self._switches = switches
        self._parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        self._constructors = MAKERS | {f.name for f in functions if self._is_constructor(f)}

    def wired(self) -> ast.Module:
        """The tree, changed in place."""
        nodes = [node for node in ast.walk(self._tree) if self._function_of(node) is not None]
        tables = [node for node in nodes if isinstance(node, ast.Tuple) and self._is_table(node)]
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        made = [call for call in calls if self._makes(call) and not self._is_inside_constructor(call)]
        helped = [call for call in calls if not self._makes(call) and self._is_helped(call)]
        for table in tables:
            self._switch_rows(table)
        for call in made:
            self._switch_place(call)
        for call in helped:
            self._mute(call)
        return self._tree

    # --- What a check is ---

    def _name_of(self, call: ast.Call) -> str:
        function = call.func
        if isinstance(function, ast.Name):
            return function.id
        return function.attr if isinstance(function, ast.Attribute) else ""

    def _makes(self, call: ast.Call) -> bool:
        """Whether the value of a call is a problem or an objection."""
        if isinstance(call.func, ast.Name):
            return call.func.id in self._constructors | {"not_disjoint"}
        is_sentence = self._module == "outcome" and self._name_of(call) == "append"
        return is_sentence and bool(call.args) and not isinstance(call.args[0], ast.Call)

    def _is_constructor(self, function: ast.FunctionDef) -> bool:
        last = function.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MAKERS

    def _is_inside_constructor(self, call: ast.Call) -> bool:
        function = self._function_of(call)
        return function is not None and function.name in self._constructors

    def _is_helped(self, call: ast.Call) -> bool:
        """Whether a call has a problem made: it is told the rule, or what the problem is about."""
        if self._name_of(call) == "Flag":
            return False
        first = call.args[0] if call.args else None
        is_rule = isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.startswith("R-")
        others = call.args[1:]
        tells_rule = any(isinstance(a, ast.Constant) and str(a.value).startswith("R-") for a in others)
        return is_rule or tells_rule or self._name_of(call) in NAMED_HELPERS

    def _is_table(self, node: ast.Tuple) -> bool:
        """Two or more rows that begin with a name, in a function that makes problems of them."""
        rows = [row for row in node.elts if isinstance(row, ast.Tuple) and row.elts]
        names = [row.elts[0] for row in rows if isinstance(row.elts[0], ast.Constant)]
        is_table = len(rows) == len(node.elts) == len(names) > 1 and isinstance(names[0].value, str)
        function = self._function_of(node)
        assert function is not None
        calls = [call for call in ast.walk(function) if isinstance(call, ast.Call)]
        return is_table and any(self._makes(call) or self._is_helped(call) for call in calls)

    # --- How it is switched off ---

    def _switch_rows(self, table: ast.Tuple) -> None:
        table.elts = [
            ast.Starred(
                ast.IfExp(self._ask(ROW, row), ast.Tuple([row], ast.Load()), ast.Tuple([], ast.Load())), ast.Load()
            )
            for row in table.elts
        ]

    def _switch_place(self, call: ast.Call) -> None:
        child: ast.AST = call
        while True:
            parent = self._parents[child]
            if isinstance(parent, (ast.ListComp, ast.GeneratorExp)) and parent.elt is child:
                parent.generators[-1].ifs.append(self._ask(SWITCH, call))
                return
            if isinstance(parent, (ast.List, ast.Tuple)) and child in parent.elts:
                kept = ast.IfExp(self._ask(SWITCH, call), ast.Tuple([child], ast.Load()), ast.Tuple([], ast.Load()))
                parent.elts[parent.elts.index(child)] = ast.Starred(kept, ast.Load())
                return
            if isinstance(parent, ast.stmt):
                self._guard(parent, call)
                return
            child = parent

    def _guard(self, statement: ast.stmt, call: ast.Call) -> None:
        """The statement is left out; with an assignment all that follows it in its block."""
        block = next(body for body in _blocks(self._parents[statement]) if statement in body)
        place = block.index(statement)
        end = len(block) if isinstance(statement, ast.Assign) else place + 1
        guarded = ast.If(self._ask(SWITCH, call), block[place:end], [])
        self._parents[guarded] = self._parents[statement]
        for inner in guarded.body:
            self._parents[inner] = guarded
        block[place:end] = [guarded]

    def _mute(self, call: ast.Call) -> None:
        inner = ast.Call(call.func, call.args, call.keywords)
        number = self._number(call, None)
        no_arguments = ast.arguments([], [], None, [], [], None, [])
        call.func = ast.Name(MUTED, ast.Load())
        is_statement = isinstance(self._parents[call], ast.Expr)
        call.args = [ast.Constant(number), ast.Lambda(no_arguments, inner), ast.Constant(is_statement)]
        call.keywords = []

    def _ask(self, switch: str, node: ast.AST) -> ast.Call:
        row = node.elts[0] if switch == ROW and isinstance(node, ast.Tuple) else None
        name = str(row.value) if isinstance(row, ast.Constant) else None
        return ast.Call(ast.Name(switch, ast.Load()), [ast.Constant(self._number(node, name))], [])

    def _number(self, node: ast.AST, name: str | None) -> int:
        function, source = self._function_of(node), " ".join(ast.unparse(node).split())
        assert function is not None
        number, line = len(self._switches.checks), getattr(node, "lineno", 0)
        same = (self._module, function.name, source)
        before = sum((each.module, each.function, each.source) == same for each in self._switches.checks)
        self._switches.checks.append(Check(number, self._module, line, function.name, source, name, before))
        return number

    def _function_of(self, node: ast.AST) -> ast.FunctionDef | None:
        found = self._parents.get(node)
        while found is not None and not isinstance(found, ast.FunctionDef):
            found = self._parents.get(found)
        return found


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
