"""The release tool writes one version everywhere, and makes the changelog from the fragments."""

import re

import package_page
import pytest
import release

FRAGMENTS = {
    "31.added.md": "- `headway advise` says which model.\n- It has a page.\n",
    "4.added.md": "A policy may be a shared library.\nIt is checked first.\n",
    "7.fixed.md": "A trace of a fork is whole.\n",
}
LOG = "# Changelog\n\n## Unreleased\n\nSee `changelog.d/`.\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return the folder of a small project with fragments, and let the tool work in it."""
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("One file per change.\n")
    for name, text in FRAGMENTS.items():
        (tmp_path / "changelog.d" / name).write_text(text)
    (tmp_path / "CHANGELOG.md").write_text(LOG)
    (tmp_path / "src" / "headway").mkdir(parents=True)
    (tmp_path / "src" / "headway" / "__init__.py").write_text('"""Docs."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "small"\n[project.urls]\nSource = "https://forge.invalid/small/"\n'
    )
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return tmp_path


def test_fragments_are_gathered_by_kind_and_issue(project):
    """Each kind has a section; its fragments are in the order of issues, and prose becomes an item of the list."""
    text = release.gathered(sorted((project / "changelog.d").glob("[0-9]*.md")))

    assert text == (
        "### Added\n\n- A policy may be a shared library.\n  It is checked first.\n"
        "- `headway advise` says which model.\n- It has a page.\n\n### Fixed\n\n- A trace of a fork is whole.\n"
    )


def test_items_of_one_area_stand_together(project):
    """An area has one heading, at the place of its first issue; items without an area come before all areas."""
    for path in (project / "changelog.d").glob("[0-9]*.md"):
        path.unlink()
    (project / "changelog.d" / "2.added.md").write_text("- It needs Linux.\n\n#### Measure\n\n- A lab.\n")
    (project / "changelog.d" / "4.added.md").write_text("#### Show\n\n- A trace.\n  It has lines.\n- A page.\n")
    (project / "changelog.d" / "11.added.md").write_text("#### Measure\n- A doctor.\n")
    (project / "changelog.d" / "12.added.md").write_text("- It needs glibc.\n")

    text = release.gathered(sorted((project / "changelog.d").glob("[0-9]*.md")))

    assert text == (
        "### Added\n\n- It needs Linux.\n- It needs glibc.\n\n"
        "#### Measure\n\n- A lab.\n- A doctor.\n\n#### Show\n\n- A trace.\n  It has lines.\n- A page.\n"
    )


def test_the_first_release_notes_fragments_that_mend_what_was_never_released(project, capsys):
    """The note names such a fragment at the first release; a later release may mend something of an earlier one."""
    assert release.main(["0.2.0"]) == 0

    assert "note: 7.fixed.md: no release has" in capsys.readouterr().err

    (project / "changelog.d" / "8.fixed.md").write_text("- A trace of a thread is whole.\n")
    assert release.main(["0.2.1"]) == 0

    assert "note:" not in capsys.readouterr().err
    assert (project / "CHANGELOG.md").read_text().count("### Fixed") == 2


def test_a_release_writes_version_and_changelog_and_empties_the_folder(project):
    """Tag, version and changelog agree after the release and not before it, and the fragments are gone."""
    assert release.checked("v0.2.0") != []

    assert release.main(["0.2.0"]) == 0

    assert release.main(["--check", "v0.2.0"]) == 0
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["README.md"]
    text = (project / "CHANGELOG.md").read_text()
    assert text.startswith(LOG)
    assert text.count("## 0.2.0 - ") == 1


def test_a_tag_that_does_not_agree_is_refused(project, capsys):
    """The check names the other version, the missing section and the fragments that are left."""
    assert release.main(["--check", "v0.3.0"]) == 1

    said = capsys.readouterr().err
    assert "the tag is v0.3.0, the version is 0.1.0" in said
    assert "no section of 0.1.0" in said
    assert "31.added.md, 4.added.md, 7.fixed.md" in said


@pytest.mark.parametrize("arguments", [[], ["0.2"], ["v0.2.0"], ["--check"], ["0.2.0", "0.3.0"]])
def test_bad_arguments_are_refused_before_anything_is_written(project, arguments, capsys):
    """Text that is not a version gives an error with a hint, and no file changes."""
    assert release.main(arguments) == 2

    assert "hint:" in capsys.readouterr().err
    assert (project / "CHANGELOG.md").read_text() == LOG


def test_a_fragment_of_an_unknown_kind_is_refused(project, capsys):
    """A fragment with a misspelt name gives an error, and the version does not change."""
    (project / "changelog.d" / "9.improved.md").write_text("x\n")

    assert release.main(["0.2.0"]) == 1

    assert "9.improved.md is no fragment" in capsys.readouterr().err
    assert "0.1.0" in (project / "src" / "headway" / "__init__.py").read_text()


def test_the_projects_own_fragments_can_be_gathered():
    """Every fragment in the repository has an issue and a kind, and every section has lists only, below its areas."""
    text = release.gathered(sorted((release.ROOT / "changelog.d").glob("[0-9]*.md")))

    assert len([line for line in text.splitlines() if line.startswith("### ")]) <= len(release.KINDS)
    assert all(line.startswith(("- ", "  ", "### ", "#### ")) for line in text.splitlines() if line)


def test_a_release_without_a_url_is_refused_before_anything_is_written(project, capsys):
    """The error says what is missing and where; the check of a tag finds it, too."""
    (project / "pyproject.toml").write_text('[project]\nname = "small"\n')

    assert release.main(["0.2.0"]) == 1
    said = capsys.readouterr().err
    assert release.main(["--check", "v0.1.0"]) == 1

    assert "no `Source` in [project.urls]" in said
    assert "hint: add the URL of the repository" in said
    assert "no `Source` in [project.urls]" in capsys.readouterr().err
    assert (project / "CHANGELOG.md").read_text() == LOG


def test_the_packages_page_has_no_relative_link():
    """Links of the README lead to the release's files, and pictures to their bytes; other links stay."""
    project = {"version": "0.2.0", "urls": {"Source": "https://forge.invalid/small/"}}

    text = package_page.dynamic_metadata({}, project)["readme"]["text"]

    files = re.findall(r"\]\(https://forge\.invalid/small/(?:blob|raw)/v0\.2\.0/([^)#]+)", text)
    assert len(files) == text.count("](") > 10
    assert all((release.ROOT / name).is_file() for name in files)
    assert "](https://forge.invalid/small/raw/v0.2.0/docs/images/convoy.png)" in text
    kept = "[a](#b) ![c](https://d.invalid/e.png) [f](mailto:g@h.invalid)"
    assert package_page.absolute(f"{kept} [i\nj](k.md#l)", "u", "1") == f"{kept} [i\nj](u/blob/v1/k.md#l)"


def test_the_readme_stays_as_it_is_without_a_url():
    """No URL is invented."""
    text = package_page.dynamic_metadata({}, {"version": "0.2.0"})["readme"]["text"]

    assert text == (release.ROOT / "README.md").read_text()
