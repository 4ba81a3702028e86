"""Finds the checks in the source of a rule and puts each behind a switch."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MUTED", "ROW", "SAID", "SWITCH", "Check", "Wiring"]

MAKERS = frozenset({"Problem", "Objection"})
NAMED_HELPERS = frozenset({"_count", "_file", "_flag", "_limit", "_miss", "_require", "_false_count"})
"""Helpers that know the rule, and are told the name of what is wrong."""
SWITCH, SAID, MUTED, ROW = "__switch__", "__said__", "__muted__", "__row__"


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

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line} in {self.function}: {self.source}"


class Wiring:
    """Puts the checks of one module behind switches."""

    def __init__(self, tree: ast.Module, module: str, checks: list[Check]) -> None:
        self._tree = tree
        self._module = module
        self._checks = checks
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
            number = self._number(call)
            self._switch_place(call, number)
            self._note(call, number)
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
        rows = [(row, self._number(row, _subject_of(row))) for row in table.elts]
        table.elts = [_unless_off(row, _ask(ROW, number)) for row, number in rows]

    def _switch_place(self, call: ast.Call, number: int) -> None:
        child: ast.AST = call
        while True:
            parent = self._parents[child]
            if isinstance(parent, (ast.ListComp, ast.GeneratorExp)) and parent.elt is child:
                parent.generators[-1].ifs.append(_ask(SWITCH, number))
                return
            if isinstance(parent, (ast.List, ast.Tuple)) and child in parent.elts:
                parent.elts[parent.elts.index(child)] = _unless_off(child, _ask(SWITCH, number))
                return
            if isinstance(parent, ast.stmt):
                self._guard(parent, number)
                return
            child = parent

    def _guard(self, statement: ast.stmt, number: int) -> None:
        """The statement is left out; with an assignment all that follows it in its block."""
        block = next(body for body in _blocks(self._parents[statement]) if statement in body)
        place = block.index(statement)
        end = len(block) if isinstance(statement, ast.Assign) else place + 1
        guarded = ast.If(_ask(SWITCH, number), block[place:end], [])
        self._parents[guarded] = self._parents[statement]
        for inner in guarded.body:
            self._parents[inner] = guarded
        block[place:end] = [guarded]

    def _note(self, call: ast.Call, number: int) -> None:
        inner = ast.Call(call.func, call.args, call.keywords)
        call.func = ast.Name(SAID, ast.Load())
        call.args, call.keywords = [ast.Constant(number), inner], []

    def _mute(self, call: ast.Call) -> None:
        inner = ast.Call(call.func, call.args, call.keywords)
        number = self._number(call)
        no_arguments = ast.arguments([], [], None, [], [], None, [])
        call.func = ast.Name(MUTED, ast.Load())
        is_statement = isinstance(self._parents[call], ast.Expr)
        call.args = [ast.Constant(number), ast.Lambda(no_arguments, inner), ast.Constant(is_statement)]
        call.keywords = []

    def _number(self, node: ast.AST, subject: str | None = None) -> int:
        function, source = self._function_of(node), " ".join(ast.unparse(node).split())
        assert function is not None
        number, line = len(self._checks), getattr(node, "lineno", 0)
        self._checks.append(Check(number, self._module, line, function.name, source, subject))
        return number

    def _function_of(self, node: ast.AST) -> ast.FunctionDef | None:
        found = self._parents.get(node)
        while found is not None and not isinstance(found, ast.FunctionDef):
            found = self._parents.get(found)
        return found


def _ask(switch: str, number: int) -> ast.Call:
    return ast.Call(ast.Name(switch, ast.Load()), [ast.Constant(number)], [])


def _unless_off(entry: ast.expr, question: ast.expr) -> ast.Starred:
    """An entry of a list or a tuple, that is there where the question is answered with yes."""
    kept = ast.IfExp(question, ast.Tuple([entry], ast.Load()), ast.Tuple([], ast.Load()))
    return ast.Starred(kept, ast.Load())


def _subject_of(row: ast.expr) -> str | None:
    first = row.elts[0] if isinstance(row, ast.Tuple) else None
    return str(first.value) if isinstance(first, ast.Constant) else None


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
