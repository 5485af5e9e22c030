"""The error model: one tree, drawn and listed; each error says what happened; none is swallowed."""

import ast
import re
from collections.abc import Iterator

import omnigraph.errors
from omnigraph.model import errors
from omnigraph.model.errors import GraphError, Outcome
from tests.support.source_tree import product_modules, read_document, require_none

# The command line's, the server's, a tool's and a Spark task's outermost boundary: no caller is
# left there.
MAY_CATCH_EVERYTHING = frozenset(
    {
        "omnigraph.cli.main",
        "omnigraph.mcp.server",
        "omnigraph.server.app",
        "omnigraph.spark.fragments",
    }
)


def test_every_error_has_a_code_and_an_outcome() -> None:
    speechless = [
        error.__name__
        for error in _errors()
        if not isinstance(getattr(error, "code", None), str)
        or not isinstance(getattr(error, "outcome", None), Outcome)
    ]

    require_none(speechless, rule="an error has a code and says what happened to the graph")


def test_every_error_is_drawn_in_the_tree() -> None:
    tree = ast.get_docstring(ast.parse(_source_of_errors())) or ""

    drawn = set(re.findall(r"\b\w+Error\b", tree))

    assert drawn == {error.__name__ for error in _errors()} | {GraphError.__name__}


def test_every_error_has_a_line_in_the_reference() -> None:
    reference = read_document("docs/reference/errors.md")

    listed = set(re.findall(r"`(\w+Error)`", reference))

    unlisted = {error.__name__ for error in _errors()} - listed
    require_none(unlisted, rule="docs/reference/errors.md explains every error")


def test_every_error_is_public() -> None:
    hidden = [
        error.__name__ for error in _errors() if error.__name__ not in omnigraph.errors.__all__
    ]

    require_none(hidden, rule="omnigraph.errors exports every error")


def test_errors_are_declared_in_one_module() -> None:
    names = {error.__name__ for error in _errors()} | {GraphError.__name__}

    elsewhere = [
        f"{module.place(node)}: {node.name}"
        for module in product_modules()
        if module.name != errors.__name__
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        if names & {ast.unparse(parent).rpartition(".")[2] for parent in node.bases}
    ]

    require_none(elsewhere, rule=f"errors are declared in {errors.__name__}")


def test_a_handler_names_what_it_can_handle() -> None:
    careless = [
        f"{module.path}:{line}: {caught}"
        for module in product_modules()
        for line, caught in _caught_types(module.tree)
        if caught in {"", "BaseException"}
        or (caught == "Exception" and module.name not in MAY_CATCH_EVERYTHING)
    ]

    require_none(careless, rule="a handler names the class that it can do something about")


def _errors() -> list[type[GraphError]]:
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, GraphError) and value is not GraphError
    ]


def _source_of_errors() -> str:
    return next(module.text for module in product_modules() if module.name == errors.__name__)


def _caught_types(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=None):
                yield node.lineno, ""
            case ast.ExceptHandler(type=ast.Tuple(elts=caught)):
                yield from ((each.lineno, _last_name(each)) for each in caught)
            case ast.ExceptHandler(type=ast.expr() as caught):
                yield caught.lineno, _last_name(caught)
            case ast.Call(func=function, args=suppressed) if _last_name(function) == "suppress":
                yield from ((each.lineno, _last_name(each)) for each in suppressed)
            case _:
                pass


def _last_name(expression: ast.expr) -> str:
    return ast.unparse(expression).rpartition(".")[2]
