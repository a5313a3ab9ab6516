"""The parser of documentation pages reads blocks and compares output; tests/integration/test_pages.py runs the pages."""

from pathlib import Path

import pytest
from pages import Awaited, CtrlC, PageError, blocks_of, first_missing, in_sample, plain, read_page

DOCS = Path(__file__).parents[2] / "docs"

PAGE = """# A page

```python title="app.py"
print(1)
```

1. In a list:

    ```sh
    python3 app.py
    ```

```text
1
```

```python
no_file()
```

```sh title="not run here: needs a cluster"
headway dask tcp://scheduler:8786
```

```text
this is the output of what is not run
```
"""

NOT_RUN = {
    "guides/is-free-threading-for-me.md": 1,
    "guides/schedule-real-programs.md": 1,
}
"""Page -> the number of command blocks that no test runs. The page gives the reason for each."""


def test_a_page_has_files_steps_and_what_is_not_run():
    """A title names a file, a block of output belongs to the commands before it, and a block not run has a reason."""
    page = read_page(PAGE + "[the server](examples/server.py) [again](examples/server.py#L3)\n")

    assert page.files == {"app.py": "print(1)\n"}
    assert [(step.commands.text, [one.text for one in step.outputs]) for step in page.steps] == [
        ("python3 app.py\n", ["1\n"])
    ]
    assert page.not_run == ["needs a cluster"]
    assert page.examples == ["examples/server.py"]


def test_blocks_know_their_lines():
    """Each block has the line at which it begins, for errors."""
    assert [(block.language, block.line) for block in blocks_of(PAGE)][:3] == [("python", 3), ("sh", 9), ("text", 13)]


def test_commands_of_a_second_terminal_and_slow_ones_are_told_apart():
    """A second terminal's output may come later, Ctrl-C ends its commands, and slow commands are marked as such."""
    page = read_page(
        '```sh title="in a second terminal"\nserve\n```\n```text\nready\n```\n'
        '```sh title="takes a minute"\nlab\n```\n'
        '```text title="from the second terminal"\nserved\n```\n<!-- Ctrl-C -->\n```text\nof no commands\n```\n'
    )
    serve, lab, served, end = page.steps

    assert (serve.beside, serve.slow, [one.text for one in serve.outputs]) == (True, False, ["ready\n"])
    assert (lab.beside, lab.slow, lab.outputs) == (False, True, [])
    assert (type(served), served.output.text, type(end)) == (Awaited, "served\n", CtrlC)


def test_output_that_is_shown_only_is_not_compared():
    """A block with the title `on a 2-core machine` is not compared, because other machines have other output."""
    page = read_page('```sh\nnproc\n```\n\n```text title="on a 2-core machine"\n2\n```\n')

    assert page.steps[0].outputs == []


def test_programs_of_a_page_end_sooner_in_a_sample():
    """A comment names a text and what stands for it in a sample, at each place; lines keep their numbers."""
    comments = "<!-- in a sample: `SECONDS = 3` is `SECONDS = 1` -->\n<!-- in a sample: `client 5` is `client 2` -->\n"
    text = "```sh\nSECONDS = 3 client 5\n```\n" + comments + "SECONDS = 3\n"

    assert in_sample(text) == "```sh\nSECONDS = 1 client 2\n```\n" + comments + "SECONDS = 1\n"


def test_a_text_that_a_sample_replaces_is_there():
    """A comment whose text has gone from the page is an error, so the page is shortened or the comment goes, too."""
    with pytest.raises(PageError, match="line 2: the page has no 'SECONDS = 3'"):
        in_sample("SECONDS = 4\n<!-- in a sample: `SECONDS = 3` is `SECONDS = 1` -->\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nls\n", "line 1: the block has no end"),
        ("```sh\nls\n```sh\nls\n```\n", "line 1: the block has no end before line 3"),
        ("```sh not run\nls\n```\n", "line 1: '```sh not run', expected"),
        ('```sh title="needs a cluster"\nls\n```\n', "`not run here: ` and a reason"),
        ('```sh title="not run here: "\nls\n```\n', "`not run here: ` and a reason"),
        ('```text title="somewhere"\n1\n```\n', "expected `on a 2-core machine`"),
        ('```python title="../app.py"\n1\n```\n', "'../app.py' is no name of a new file"),
        ('```python title="a.py"\n1\n```\n```python title="a.py"\n2\n```\n', "'a.py' is no name of a new file"),
    ],
)
def test_what_breaks_the_convention_is_refused(text, said):
    """A block that breaks the convention is an error, so no block is left out silently."""
    with pytest.raises(PageError) as caught:
        read_page(text)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    "output",
    [
        "fetch waited 1,407 times (135.2/s), 998 us at the median\n",
        "fetch waited 3 times (9/s),\r\n   5 ms at the median\r\n",
        "before\nfetch waited 3 times (9/s), < 0.1 s at the median\nbehind\n",
    ],
)
def test_figures_units_of_time_and_line_breaks_do_not_matter(output):
    """Output with other figures, units of time and line breaks matches, because these differ from run to run."""
    assert first_missing("fetch waited 407 times (135/s), 5.11 ms at the median\n", output) == ""
    assert plain("[149, 150]") == plain("[14.0, 15.5]")
    assert plain("it takes 499\nms") == plain("it takes 1 s")


@pytest.mark.parametrize(
    "output",
    [
        "report waited 407 times (135/s), 5.11 ms at the median\n",
        "fetch waited 407 times (135/s), 5.11 MB at the median\n",
        "fetch waited never\n",
        "",
    ],
)
def test_words_matter(output):
    """Output with another word does not match."""
    assert first_missing("fetch waited 407 times (135/s), 5.11 ms at the median\n", output) != ""


def test_dots_stand_for_anything_and_order_matters():
    """Output matches if it has the parts around `...` in their order."""
    assert first_missing("first\n...\nlast 1\n", "first\nsecond\nlast 22\n") == ""
    assert first_missing("recording into .../app.hwt\n", "recording into /home/me/app.hwt\n") == ""
    assert first_missing("last\n...\nfirst\n", "first\nsecond\nlast\n") == "first"


def test_rules_and_bars_have_any_length():
    """The lengths of rules and bars do not matter, because they depend on the figures."""
    assert plain("a  ──────\n▁▇███ 5") == plain("a ───\n█ 12")


def test_every_block_that_is_not_run_is_counted():
    """`NOT_RUN` has the number of blocks that are not run, so that leaving one out is a decision."""
    pages = {str(path.relative_to(DOCS)): read_page(path.read_text()) for path in sorted(DOCS.glob("*/*.md"))}

    assert {name: len(page.not_run) for name, page in pages.items() if page.not_run} == NOT_RUN
