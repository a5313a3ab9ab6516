"""Make web/src/schema.ts from the dataclasses of headway.report.html.schema: `python tools/web_types.py`.

With --check the program writes nothing, and exits with 1 if the file differs from what it would write.
"""

import argparse
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path

import headway.report.html.schema as schema

TARGET = Path(__file__).resolve().parent.parent / "web" / "src" / "schema.ts"
_PRIMITIVES = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def type_of(hint: object) -> str:
    """Return a Python type as TypeScript writes it.

    Raises:
        TypeError: JSON has no values of the type.
    """
    if isinstance(hint, type) and hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint.__name__
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " | ".join(f'"{one}"' for one in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(type_of, arguments))
    if origin is tuple and arguments[1:] == (...,):
        inner = type_of(arguments[0])
        return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
    if origin is tuple:
        return f"readonly [{', '.join(map(type_of, arguments))}]"
    if origin is Mapping and arguments[0] is str:
        return f"Readonly<Record<string, {type_of(arguments[1])}>>"
    raise TypeError(f"no TypeScript for {hint}")


def interface(one: type) -> str:
    """Return a dataclass as a TypeScript interface."""
    hints = typing.get_type_hints(one)
    fields = "".join(f"  readonly {name}: {type_of(hint)};\n" for name, hint in hints.items())
    first = (inspect.getdoc(one) or "").split("\n\n")[0].replace("\n", " ")
    return f"/** {first} */\nexport interface {one.__name__} {{\n{fields}}}\n"


def generated() -> str:
    """Return the text of the whole file."""
    classes: list[type] = [getattr(schema, name) for name in schema.__all__ if name != "Page"]
    parts = [interface(one) for one in classes]
    page = f"export type Page = {type_of(schema.Page)};\n"
    return "// Made by tools/web_types.py from src/headway/report/html/schema.py: change it there.\n\n" + "\n".join(
        [*parts, page]
    )


def main() -> int:
    """Write the file, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where the file is another")
    wanted = generated()
    if parser.parse_args().check:
        there = TARGET.read_text("utf-8") if TARGET.exists() else ""
        if there != wanted:
            print(f"{TARGET} is not what tools/web_types.py makes: run it", file=sys.stderr)
        return int(there != wanted)
    TARGET.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
