"""Installed copies of a repository's packages are found, and nothing else is taken for one."""

import json
import subprocess
import sys
import types

import pytest

from headway.measure.copies import copied_package


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that says which copied package is found if `package` is loaded from a file."""
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "part" / "src" / "package").mkdir(parents=True)
    (repository / "part" / "src" / "package" / "__init__.py").touch()

    def found(file, top=repository / "part"):
        monkeypatch.setitem(sys.modules, "package", types.SimpleNamespace(__file__=str(tmp_path / file)))
        return copied_package(top)

    return found


def test_an_installed_copy_of_the_repositorys_package_is_found(project, tmp_path):
    """A package that is loaded from site-packages, and is in the repository too, is named with both folders."""
    copy = tmp_path / "lib" / "site-packages" / "package"
    own = tmp_path / "repository" / "part" / "src" / "package"
    said = f"package is imported from {copy}, and not from {own}, so both trees run that copy"
    assert project("lib/site-packages/package/__init__.py") == said
    assert project("lib/site-packages/package/__init__.py", own.parent) == said


def test_only_an_installed_copy_is_one(project, tmp_path, monkeypatch):
    """The repository's own package is no copy, also if the repository is below sys.prefix; nor is a foreign package."""
    assert not project("repository/part/src/package/__init__.py")
    assert not project("lib/site-packages/package/__init__.py", tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert not project("repository/part/src/package/__init__.py")


@pytest.fixture
def installation(tmp_path, monkeypatch):
    """Return a function that tells which copy is found beside an installed distribution of which a module is loaded.

    The repository has the project `geo-tools` with its sources in `backend`, the projects `part` and `ignored/part`,
    and a package in the namespace `acme`. `origin` is the content of direct_url.json, with REPOSITORY for the
    repository's folder.
    """
    repository, packages = tmp_path / "a repository", tmp_path / "lib" / "site-packages"
    (tmp_path / "a repository's neighbour").mkdir()
    for file in ("backend/geo/__init__.py", "part/setup.py", "ignored/part/setup.py", "src/acme/core/__init__.py"):
        (repository / file).parent.mkdir(parents=True)
        (repository / file).touch()
    (repository / "pyproject.toml").write_text('[project]\nname = "geo-tools"\n')
    (repository / ".gitignore").write_text("ignored\n")
    subprocess.run(["git", "init", "--quiet"], cwd=repository, check=True)
    monkeypatch.syspath_prepend(packages)

    def found(name, file, *, module, origin=None, folders=()):
        information = packages / f"{name}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (information / "RECORD").write_text(f"{file},,\n")
        (packages / file).parent.mkdir(parents=True)
        (packages / file).touch()
        if origin is not None:
            text = json.dumps(origin).replace("REPOSITORY", repository.as_uri())
            (information / "direct_url.json").write_text(text)
        own = [str(repository / one) for one in folders]
        loaded = types.SimpleNamespace(__file__=str(packages / file), __path__=own)
        if module:
            monkeypatch.setitem(sys.modules, module, loaded)
        said = copied_package(repository)
        return said.replace(str(packages), "PACKAGES").replace(str(repository), "REPOSITORY")

    return found


A_COPY = {"url": "REPOSITORY", "dir_info": {}}


@pytest.mark.parametrize(
    ("name", "origin", "source"),
    [
        ("geo", A_COPY, "REPOSITORY"),
        ("geo", {"url": "REPOSITORY/part", "dir_info": {"editable": False}}, "REPOSITORY/part"),
        ("geo", {"url": "REPOSITORY", "vcs_info": {"vcs": "git", "commit_id": "1"}}, "REPOSITORY"),
        ("Geo_Tools", {"url": "https://example.org/geo_tools-1.0.whl", "archive_info": {}}, "REPOSITORY"),
        ("geo.tools", None, "REPOSITORY"),
    ],
)
def test_a_copy_of_sources_in_any_folder_is_found(installation, name, origin, source):
    """Metadata tell that a package is a copy of a folder of the repository, or of a project of that name."""
    said = f"geo is imported from PACKAGES/geo, a copy of {name} in {source}, so both trees run that copy"
    assert installation(name, "geo/__init__.py", module="geo", origin=origin) == said


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("geo-tools", {"url": "REPOSITORY", "dir_info": {"editable": True}}),  # its finder is loaded
        ("geo", {"url": "REPOSITORY/ignored/part", "dir_info": {}}),
        ("geo", {"url": "REPOSITORY/nowhere/geo-1.0.whl", "archive_info": {}}),
        ("geo", {"url": "REPOSITORY's%20neighbour", "dir_info": {}}),
        ("geo", None),
        ("geo", {"url": 1}),
        ("geo", ["url"]),
    ],
)
def test_another_distribution_is_no_copy(installation, name, origin):
    """An editable installation and a package that is not the repository's are no copies, whatever their metadata."""
    assert not installation(name, "geo/__init__.py", module="geo", origin=origin)


def test_a_copy_that_is_not_loaded_is_none(installation):
    """A copy of which no module is loaded does not matter."""
    assert not installation("geo", "geo/__init__.py", module="", origin=A_COPY)


@pytest.mark.parametrize(
    ("module", "own", "refused"),
    [
        ("acme.core", (), True),
        ("acme.other", (), False),  # a neighbour
        ("acme.core", ("src/acme/other",), True),
        ("acme.core", ("src/acme/core",), False),  # the file may be a neighbour's, and the modules the repository's
    ],
)
def test_a_copy_of_a_namespace_package_is_found(installation, module, own, refused):
    """A package below a folder without a file of its own is found, and no other package of the namespace."""
    file = f"{module.replace('.', '/')}/__init__.py"
    said = "acme.core is imported from PACKAGES/acme/core, and not from REPOSITORY/src/acme/core, so both trees run that copy"
    assert installation("neighbour", file, module=module, folders=own) == (said if refused else "")
