"""The page on JSON has every field that `--json` prints."""

import ast
import dataclasses
import inspect
import json
import textwrap

import pytest
import site_json

from headway.cli.main import main

SOURCES = list(dict.fromkeys(source for _, _, tables in site_json.OUTPUTS for _, source in tables))


def told(source):
    return {name for names in site_json.fields(source) for name in names.split(", ")}


def printed(source):
    """Return the fields of a class, or the keys of the objects that a function returns itself."""
    if isinstance(source, type):
        return {one.name for one in dataclasses.fields(source)}
    [function] = ast.parse(textwrap.dedent(inspect.getsource(source))).body
    assert isinstance(function, ast.FunctionDef)
    outer = [node.value for node in function.body if isinstance(node, ast.Return)]
    return {key.value for value in outer for key in value.keys if key is not None}


@pytest.mark.parametrize("source", SOURCES, ids=lambda one: one.__qualname__)
def test_every_field_has_its_row(source):
    """The docstring tells of each field of the class, or of the object that the function makes, and of no other."""
    assert told(source) == printed(source)


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["policies"], {"policies", "options"}),
        (["stalls", "none.jsonl"], {"cannot_tell", "by_holder", "over_time", "bin_s"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_the_page_has_what_a_command_prints(words, keys, tmp_path, monkeypatch, capsys):
    """The keys of a command's own output stand on the page, those that the command adds among them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.jsonl").touch()
    page = "\n".join(site_json.json_outputs())

    assert main([*words, "--json"]) == 0

    found = set(json.loads(capsys.readouterr().out))
    assert found >= keys
    assert [key for key in found if f"`{key}`" not in page] == []
