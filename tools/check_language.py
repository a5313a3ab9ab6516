"""Check the part of docs/contributing/language.md that a program can check: openings of sentences and length of lines.

The program reads Markdown, and the comments and docstrings of Python, C and TypeScript. It names each problem's place,
and exits with 1 if there is one. Arguments are the files and folders to read; without any, it reads the whole project.
"""

import ast
import io
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

__all__ = ["listed", "main", "problems_of"]

ROOT = Path(__file__).resolve().parent.parent
MOST_COLUMNS = 140
# Text that the project does not word itself: locks, built files, and the words of other projects.
LEFT_OUT = ("requirements/", "web/node_modules/", "src/headway/lab/beside/locks/", "tests/data/", "CHANGELOG.md")

UNTRACKED = {".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__", "node_modules"}
BUILT = {"build", "dist", "share", "site"}

_OPENING = re.compile(r"^(?:Who|Whom|Whose|Whoever|What|Whatever)\b[^?]*$")
# The end of a sentence that another one follows. The full stop of an abbreviation or of an initial does not count.
_SENTENCE_END = re.compile(
    r"(?<![A-Z])(?<!\be\.g)(?<!\bi\.e)(?<!\bal)(?<!\bcf)(?<!\bvs)[.!?][\")*_]*\s+(?=[A-Z`\"*\[(])"
)
_LINK_TARGET = re.compile(r"\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_C_COMMENT = re.compile(
    r"/\*(?P<block>.*?)\*/|//(?P<line>[^\n]*)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE_END.split(" ".join(text.split()))]


def _wrong_openings(text: str) -> Iterator[str]:
    """Yield each sentence of a text that opens with Who, Whom, Whose or What and asks nothing."""
    for sentence in _sentences(_CODE.sub("`x`", text)):
        if _OPENING.match(sentence):
            yield f"a sentence opens with {sentence.split()[0]}: {sentence[:60]!r}"


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, problem) for a Markdown file; lines that are too long or have two sentences are problems, too."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if (
            fenced
            or line.startswith(("    ", "|", "#", "---", "<"))
            or line.lstrip().startswith(("```", "|", "!!!", "["))
        ):
            continue
        seen = _LINK_TARGET.sub("]", line)
        if len(seen) > MOST_COLUMNS:
            yield number, f"{len(seen)} columns; a line has at most {MOST_COLUMNS}"
        bare = _CODE.sub("`x`", seen).strip().lstrip("-*0123456789. ")
        if len(_sentences(bare)) > 1:
            yield number, f"two sentences on a line: {bare[:60]!r}"
        for problem in _wrong_openings(bare):
            yield number, problem


def _c_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each comment of a file in C or TypeScript."""
    for match in _C_COMMENT.finditer(text):
        comment = match["block"] if match["block"] is not None else match["line"]
        if comment is not None:
            yield text.count("\n", 0, match.start()) + 1, re.sub(r"\n\s*\*", "\n", comment).strip("* \n")


def _python_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each comment and docstring; comments on consecutive lines are one."""
    block: list[str] = []
    begin = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if block and line != last + 1:
            yield begin, " ".join(block)
            block = []
        if not block:
            begin = line
        block.append(token.string.lstrip("#! "))
        last = line
    if block:
        yield begin, " ".join(block)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found and isinstance(node.body[0], ast.Expr):
                # A blank line ends a sentence that has no full stop.
                for paragraph in found.split("\n\n"):
                    yield node.body[0].lineno, paragraph


def problems_of(path: Path, text: str) -> list[tuple[int, str]]:
    """Return (line, problem) for each place of a file, given its text, in the order of lines."""
    if path.suffix == ".md":
        return list(_markdown(text))
    comments = _python_comments(text) if path.suffix == ".py" else _c_comments(text)
    return sorted((line, problem) for line, comment in comments for problem in _wrong_openings(comment))


def listed(chosen: list[str]) -> list[str]:
    """Return the files that the project has below the chosen ones, from git, or by a walk in an unpacked sdist."""
    if not (ROOT / ".git").exists():
        roots = [Path(name) for name in chosen] or [ROOT]
        paths = [path for root in roots for path in ([root] if root.is_file() else root.rglob("*"))]
        names = [path.relative_to(ROOT) for path in paths]
        return [
            name.as_posix() for name in names if not UNTRACKED.intersection(name.parts) and name.parts[0] not in BUILT
        ]
    git = [shutil.which("git") or "git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run([*git, *chosen], check=True, capture_output=True, text=True).stdout.splitlines()


def _files(chosen: list[str]) -> Iterator[Path]:
    for name in sorted(set(listed(chosen))):
        path = ROOT / name
        if path.suffix in {".md", ".py", ".c", ".h", ".ts"} and not name.startswith(LEFT_OUT) and path.is_file():
            yield path


def main(chosen: list[str]) -> int:
    """Print each problem of the chosen files; return 1 if there are any."""
    found = 0
    for path in _files([str(Path(name).resolve()) for name in chosen]):
        for line, problem in problems_of(path, path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(ROOT)}:{line}: {problem}")
            found += 1
    if found:
        print(f"\nhint: docs/contributing/language.md has the rules ({found} places)", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
