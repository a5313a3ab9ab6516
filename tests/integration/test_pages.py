"""The pages of the documentation: what they show is what a reader gets.

docs/contributing/documentation.md has the convention.
"""

import dataclasses
import datetime as dt
import os
import shutil
from pathlib import Path

import pytest
from page_runner import SecondTerminal, run_page, run_step, with_free_ports
from pages import PageError, read_page
from provision.locked_environment import locked_python
from real_programs import BY_NAME

from headway.host.machine import this_machine
from headway.host.paths import cache_folder
from headway.sim import calibration

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


ALONE = {"first-trace", "threads-gave-nothing", "trace-a-server"}
"""Pages that show how threads wait for each other: they do so only if they have their cores."""


def runnable(folder):
    """Return the pages of a folder that have something to run, as parameters."""
    return [
        pytest.param(path, id=path.stem, marks=[pytest.mark.times] if path.stem in ALONE else [])
        for path in sorted((DOCS / folder).glob("*.md"))
        if read_page(path.read_text(encoding="utf-8")).steps
    ]


@pytest.fixture
def environment(tmp_path):
    """Variables that give a page a cache of its own, and `python3.13t` on PATH.

    The cache has a calibration, since measuring one takes half a minute, and what the interpreters told these tests of themselves.
    """
    cache = tmp_path / "cache" / "headway"
    cache.mkdir(parents=True)
    now = dt.datetime.now(dt.UTC).isoformat()
    ours = dataclasses.replace(calibration.PRESET, machine=calibration._facts(this_machine()), taken_at=now)
    calibration.save(ours, cache / "calibration.json")
    shutil.copy(cache_folder() / "probes.json", cache)
    free_threaded = Path(os.environ["HEADWAY_INTERPRETERS"]) / "3.13t" / "bin"
    # A reader's python3.13 comes first, since the one of a version manager may refuse to start.
    places = [str(Path(BY_NAME["3.13"].executable).parent), os.environ["PATH"], str(free_threaded)]
    return {"XDG_CACHE_HOME": str(cache.parent), "PATH": os.pathsep.join(places)}


@pytest.fixture
def slow(request):
    """True if everything is to be tested, blocks of minutes included."""
    return request.config.getoption("--matrix") == "full"


@pytest.fixture
def folder(tmp_path):
    """The empty folder in which a reader begins."""
    path = tmp_path / "reader"
    path.mkdir()
    return path


@pytest.fixture
def apps(folder, slow):
    """The environment `apps` of a reader's own programs, unless the page's commands make it themselves."""
    if not slow:
        python = locked_python(BY_NAME["3.13"], ROOT / "requirements" / "watched.lock", "watched")
        (folder / "apps").symlink_to(Path(python).parents[1])


@pytest.mark.parametrize("path", runnable("tutorials"))
def test_a_tutorial_shows_what_its_commands_print(path, folder, environment, slow):
    """Each command of a tutorial succeeds, in order, in one folder; its output has the words that the page shows."""
    run_page(path, folder, environment, slow=slow)


@pytest.mark.usefixtures("apps")
@pytest.mark.parametrize("path", runnable("guides"))
def test_a_guide_shows_what_its_commands_print(path, folder, environment, slow):
    """Each command of a guide that can be run here succeeds, and prints what the guide shows."""
    run_page(path, folder, environment, slow=slow)


def step(commands, shown=""):
    """Return a step as a page has it."""
    return read_page(f"```sh\n{commands}\n```\n\n```text\n{shown}\n```\n").steps[0]


def test_a_command_that_fails_is_named(folder):
    """Also one in the middle of a block, and in the middle of a pipe."""
    with pytest.raises(PageError, match=r"exit code 3:\n(.*\n)*.*told"):
        run_step(step("echo told; (exit 3) | cat\necho never"), folder, dict(os.environ))


def test_another_output_is_a_failure(folder):
    """The part that is missing is named, with all that was printed."""
    with pytest.raises(PageError, match=r"the output lacks 'two':\n(.*\n)*one"):
        run_step(step("echo one", "one\n...\ntwo"), folder, dict(os.environ), limit_s=0.5)


def test_what_a_detached_process_prints_later_is_waited_for(folder):
    """A process that opens the terminal by its name, as the summary of a trace does, counts as well."""
    # The pipe ends when the shell does.
    commands = """mkfifo go
setsid bash -c 'cat < go; echo late > "$0"' "$(tty <&2)" > /dev/null 2>&1 < /dev/null &
exec 3> go
echo early"""
    output = run_step(step(commands, "early\nlate"), folder, dict(os.environ))

    assert output.split() == ["early", "late"]


@pytest.fixture
def second(folder):
    """A second terminal of a reader, without commands."""
    with SecondTerminal(folder, dict(os.environ)) as terminal:
        yield terminal


def beside(commands, shown=""):
    """Return a step of a second terminal as a page has it."""
    text = f'```sh title="in a second terminal"\n{commands}\n```\n\n```text\n{shown}\n```\n'
    return read_page(text).steps[0]


def test_commands_of_a_second_terminal_go_on_until_ctrl_c(folder, second):
    """They run beside the steps that follow, and Ctrl-C ends them, background jobs of their shell included."""
    second.begin(beside("tail -f /dev/null & echo $! > pid; echo ready; wait", "ready"))
    run_step(step("kill -0 $(cat pid)"), folder, dict(os.environ))
    second.end()

    assert second.told() == ""
    assert not Path("/proc", (folder / "pid").read_text().strip()).exists()


def test_a_second_terminal_that_fails_is_a_failure(second):
    """A page that waits for the output of a failed command says so, with what was printed."""
    with pytest.raises(PageError, match="lacks 'ready': its commands failed with 3"):
        second.begin(beside("echo not yet; exit 3", "ready"))


def test_ports_of_a_page_are_free_ones():
    """Pages are tested beside each other, so a port of a page is another one in its test, the same at each place."""
    text = with_free_ports("serve 127.0.0.1:8092; serve 127.0.0.1:8093; client 8092; 80920")
    first, second, third, rest = (int(one.rpartition(":")[2].split()[-1]) for one in text.split(";"))

    assert first == third != second
    assert 8092 not in (first, second)
    assert rest == 80920


@pytest.mark.parametrize("worker", ["gw0", "gw3"])
def test_a_port_of_a_page_is_given_to_no_other_program(monkeypatch, worker):
    """The system gives no client such a port before the page's server has it, and each process of the tests has its own."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    first_of_system = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = {int(with_free_ports("127.0.0.1:8092").rpartition(":")[2]) for _ in range(20)}

    assert {port % 64 for port in ports} == {(20_000 + int(worker[2:])) % 64}
    assert max(ports) < first_of_system or first_of_system <= 26_400
