"""docs/contributing/where-do-i-change.md names files, sections and names that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "contributing" / "where-do-i-change.md").read_text(encoding="utf-8")
WITHOUT_LISTINGS = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)


def paths_named(text):
    """Return the words in backquotes that are paths of the repository: words with a slash and without spaces."""
    return [word for word in re.findall(r"`([^`\s]+)`", text) if re.fullmatch(r"[\w.<>-]+(/[\w.<>-]*)+", word)]


def is_there(path):
    """Return whether a path exists; for a path with a placeholder in angle brackets, whether its folder does."""
    fixed = path.partition("<")[0]
    return (ROOT / (fixed.rpartition("/")[0] if fixed != path else path)).exists()


def test_paths_are_told_from_other_words():
    """Commands, names and options are not paths; a path with a placeholder is one, and stands for its folder."""
    text = "`src/headway/cli/<name>_command.py`, `native/`, `make check`, `--json`, `RULES`, `lab/none/x.py`"

    assert paths_named(text) == ["src/headway/cli/<name>_command.py", "native/", "lab/none/x.py"]
    assert [is_there(one) for one in paths_named(text)] == [True, True, False]
    assert not is_there("src/nowhere/<name>.py")


def test_every_path_of_the_page_exists():
    """Every path on the page exists, so a file that moves must be renamed on the page, too."""
    named = paths_named(WITHOUT_LISTINGS)

    assert len(named) > 60
    assert [one for one in named if not is_there(one)] == []


def test_the_table_of_contents_has_every_section():
    """The table links to the ten sections in their order, each by the anchor of its heading."""
    headings = re.findall(r"^## (\d+\. .+)$", WITHOUT_LISTINGS, re.MULTILINE)
    anchors = re.findall(r"^\| \[\d+\. [^\]]+\]\(#([^)]+)\)", WITHOUT_LISTINGS, re.MULTILINE)

    assert len(headings) == 10
    assert anchors == [re.sub(r"[^\w-]", "", one.lower().replace(" ", "-")) for one in headings]


def test_every_name_of_code_stands_in_a_file_of_its_section():
    """A table, function or constant that a section names is in one of the files of the same section."""
    for section in re.split(r"^(?=## )", WITHOUT_LISTINGS, flags=re.MULTILINE)[1:]:
        files = [ROOT / one for one in paths_named(section) if (ROOT / one).is_file()]
        text = "\n".join(one.read_text(encoding="utf-8") for one in files)
        names = re.findall(r"`(_?[A-Za-z]*[_A-Z]\w+)`", section)
        assert [one for one in names if one not in text and not (ROOT / one).exists()] == [], section.splitlines()[0]
