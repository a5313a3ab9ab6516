"""The C compiler's sizes, offsets and numbers, for comparison with what Python code repeats of a header."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[2] / "native"


def c_layout(
    folder: Path,
    headers: Iterable[str],
    structs: Mapping[str, tuple[str, Iterable[str]]],
    numbers: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Compile and run a program that prints sizes and offsets, and return them by name.

    Args:
        folder: An empty folder for the program.
        headers: The headers to include, as below native/ or native/include/, or the system's.
        structs: Name in the result -> the C struct's name and its fields.
        numbers: Name in the result -> a C expression of an integer.

    Returns:
        {"look": bytes, "look.wait_ns": offset, ..., "WAIT": number}.
    """
    wanted = {name: f"sizeof(struct {struct})" for name, (struct, _) in structs.items()}
    for name, (struct, fields) in structs.items():
        wanted |= {f"{name}.{field}": f"offsetof(struct {struct}, {field})" for field in fields}
    wanted |= numbers or {}
    lines = [f'printf("{name} %llu\\n", (unsigned long long)({value}));' for name, value in wanted.items()]
    includes = "".join(f"#include <{name}>\n" for name in ("stddef.h", "stdio.h", *headers))
    source, program = folder / "layout.c", folder / "layout"
    source.write_text(includes + "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    search = [f"-I{NATIVE}", f"-I{NATIVE / 'include'}"]
    subprocess.run(["cc", "-std=gnu11", *search, str(source), "-o", str(program)], check=True)
    out = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in map(str.split, out.splitlines())}
