"""A Jupyter notebook -> the Python of its code cells that defines something.

A notebook also draws, trains and tries things out, which a grader must not do again. Kept are functions and classes,
in the order of the cells, so that the last definition of a name counts; of the imports and assignments, those whose
names they use. Each kept line keeps its text.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.files import Refused
from grader.results import Verdict

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
IMPORTS = (ast.Import, ast.ImportFrom)
# %magic, !shell, ?name, name?, x = !ls
SHELL = re.compile(r"^(\s*)(?:[%!?].*|[\w.]+\s*\?{1,2}\s*|\w[\w\s,]*=\s*[%!].*)$")
RUN_AS_PYTHON = re.compile(r"%%(time|timeit|capture|prun)\b")


@dataclass(frozen=True)
class Cell:
    """One code cell that Python can read."""

    number: int
    lines: list[str]
    tree: ast.Module


def code(data: bytes, name: str) -> str:
    """The code of the notebook `name`.

    Raises:
        Refused: it is no notebook, or a cell that defines something is not Python.
    """
    cells = [_cell(number, source, name) for number, source in _sources(data, name)]
    read = [cell for cell in cells if cell is not None]
    statements = [(cell, statement) for cell in read for statement in cell.tree.body]
    kept = set(map(id, _needed([statement for _, statement in statements])))
    parts = [_text(cell, kept) for cell in read]
    return "\n\n".join(part for part in parts if part) + "\n"


def _sources(data: bytes, name: str) -> Iterator[tuple[int, str]]:
    """Number and text of each code cell."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        for number, cell in enumerate(cells, start=1):
            if cell.get("cell_type") == "code":
                source = cell.get("source", cell.get("input", ""))
                yield number, source if isinstance(source, str) else "".join(map(str, source))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise Refused("intake.not_a_notebook", Verdict.SYNTAX_ERROR, file=name) from None


def _cell(number: int, source: str, name: str) -> Cell | None:
    """None for a cell in another language, and for one that does not parse and defines nothing."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%") and not RUN_AS_PYTHON.match(lines[first]):
        return None
    tree = _parsed(lines)
    if not isinstance(tree, ast.Module):
        lines = [SHELL.sub(r"\1pass", line) for line in lines]
        tree = _parsed(lines)
    if isinstance(tree, ast.Module):
        return Cell(number, lines, tree)
    if any(re.match(r"\s*(def|class|async def)\b", line) for line in lines):
        why = {"file": name, "cell": number, "line": tree.lineno or 1, "reason": tree.msg}
        raise Refused("intake.cell_syntax", Verdict.SYNTAX_ERROR, **why)
    return None


def _parsed(lines: list[str]) -> ast.Module | SyntaxError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse("\n".join(lines))
    except SyntaxError as error:
        return error
    except (RecursionError, MemoryError, ValueError) as error:
        return SyntaxError(type(error).__name__)


def _needed(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The definitions, and what they use of the other statements, directly or through one another."""
    defined = {statement.name for statement in statements if isinstance(statement, DEFINITIONS)}
    kept = [statement for statement in statements if _defines(statement, defined)]
    used = set().union(*map(_uses, kept))
    others = [each for each in statements if isinstance(each, (*ASSIGNMENTS, *IMPORTS)) and each not in kept]
    while more := [each for each in others if each not in kept and _binds(each) & (used | {"*"})]:
        kept += more
        used = used.union(*map(_uses, more))
    return kept


def _defines(statement: ast.stmt, defined: set[str]) -> bool:
    """A function, a class, a lambda with a name, another name for one of them, a method put into a class."""
    if isinstance(statement, DEFINITIONS):
        return True
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    if not isinstance(statement, ast.Assign):
        return False
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Attribute):
        return _binds(statement) <= defined
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and value.id in defined)


def _uses(statement: ast.stmt) -> set[str]:
    """The names that a statement looks for outside itself; those local to its functions are not among them."""
    try:
        scopes = [symtable.symtable(ast.unparse(statement), "", "exec")]
    except (SyntaxError, ValueError, RecursionError):
        return set()
    names: set[str] = set()
    while scopes:
        scope = scopes.pop()
        top = scope.get_type() == "module"
        names |= {each.get_name() for each in scope.get_symbols() if each.is_referenced() and (top or each.is_global())}
        scopes += scope.get_children()
    return names


def _binds(statement: ast.stmt) -> set[str]:
    """The names that an import or an assignment gives a value, those of `x.y = 1` and `x[0] = 1` too."""
    if isinstance(statement, IMPORTS):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _text(cell: Cell, kept: set[int]) -> str:
    """The lines of the kept statements, under the number of their cell."""
    rows = [row for statement in cell.tree.body if id(statement) in kept for row in _rows(statement, cell)]
    return "\n".join([f"# cell {cell.number}", *rows]) if rows else ""


def _rows(statement: ast.stmt, cell: Cell) -> list[str]:
    """Its lines as they were written, unless another statement shares one of them."""
    first, last = _span(statement)
    spans = (_span(other) for other in cell.tree.body if other is not statement)
    if any(start <= last and end >= first for start, end in spans):
        return [ast.unparse(statement)]
    return cell.lines[first - 1 : last]


def _span(statement: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return first, statement.end_lineno or first
