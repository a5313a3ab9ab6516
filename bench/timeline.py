"""Measure how soon the page of a trace is ready, and how long its frames take while it is zoomed and moved.

There are two real traces of docs/guides/examples/convoy.py. The first one, with four CPU-bound threads, is opened from
disk several times. The second one has no such thread, and is long enough for a million events; a scripted session zooms
and moves it. Frames are timed from one animation frame to the next, without a limit of the frame rate, so they include
the browser's own part. Headless Chromium draws in software. Targets: opened in under 2 s; a median frame under 16 ms,
the longest under 50 ms.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from provision.find_chromium import find_chromium  # noqa: E402

PROGRAM = ROOT / "docs" / "guides" / "examples" / "convoy.py"
EVENTS = 1_000_000
UNLIMITED = ["--disable-frame-rate-limit", "--disable-gpu-vsync"]
SESSION = """async () => {
  const one = headwayTimelines[0], span = one.span, frames = [];
  // The timeline asks for the next frame before we do, so each of ours comes when it has drawn.
  const frame = () => new Promise(done => requestAnimationFrame(() => done(performance.now())));
  let last = await frame();
  const show = async (from, to) => {
    one.show({from, to});
    const now = await frame();
    frames.push(now - last);
    last = now;
  };
  for (const middle of [0.5, 0.2, 0.8]) {
    const at = middle * span;
    for (let step = 0; step <= 90; step++) {
      const half = span / 2 * Math.pow(1e-6, step / 90);
      await show(at - half, at + half);
      // Where threads, holds and single events are seen, there and back.
      if (step % 30 === 15) for (let go = -10; go <= 10; go++) await show(at - half + go * half / 5, at + half + go * half / 5);
    }
  }
  await show(0, span);
  return {frames, draws: one.drawn_ms.slice(-frames.length), holds: one.model.hold.start.length, whole: one.model.view.bins === 0, lanes: one.model.view.lanes.length};
}"""


def headway(*arguments: str | Path) -> None:
    """Run headway without showing its output."""
    subprocess.run([sys.executable, "-m", "headway", *map(str, arguments)], check=True, capture_output=True)


def page_of(folder: Path, name: str, seconds: float, threads: int) -> tuple[Path, int]:
    """Record a trace; return its page and its number of events."""
    from headway.traces.reader import read

    recording, page = folder / f"{name}.hwt", folder / f"{name}.html"
    headway("trace", "-o", recording, "--python", sys.executable, PROGRAM, str(seconds), str(threads))
    headway("report", recording, "--html", page)
    return page, len(read(recording).events)


def opened_s(browser: Browser, page: Path) -> float:
    """Return how long a fresh tab takes until the page is loaded and drawn."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    begun = time.perf_counter()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready]")
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    taken = time.perf_counter() - begun
    context.close()
    return taken


def main() -> int:
    """Print both measurements; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=7, help="how often each page is opened (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of the long trace (default: %(default)s)")
    arguments = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=UNLIMITED)
        print(f"Chromium {browser.version}, headless, software rendering, 1280 x 800")
        short, events = page_of(Path(name), "short", 2.0, 4)
        times = [opened_s(browser, short) for _ in range(arguments.times)]
        median = statistics.median(times)
        print(
            f"4 threads that compute, {events:,} events, {short.stat().st_size / 1e6:.1f} MB: opened in {median:.2f} s "
            f"[{min(times):.2f}, {max(times):.2f}], {len(times)} times"
        )
        if median >= 2:
            missed.append("opening takes 2 s or more")
        long, events = page_of(Path(name), "long", arguments.seconds, 0)
        if events < EVENTS:
            parser.error(f"{events:,} events in {arguments.seconds:g} s: more --seconds, for {EVENTS:,}")
        times = [opened_s(browser, long) for _ in range(arguments.times)]
        print(
            f"{events:,} events, {long.stat().st_size / 1e6:.1f} MB: opened in {statistics.median(times):.2f} s "
            f"[{min(times):.2f}, {max(times):.2f}]"
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(long.as_uri())
        tab.wait_for_selector("html[data-ready]")
        told = tab.evaluate(SESSION)
        if not told["whole"]:
            parser.error(f"{events:,} events are too many to be in the page one by one: fewer --seconds")
        for what, values in (("a frame", told["frames"]), ("of it our drawing", told["draws"])):
            ordered = sorted(values)
            print(
                f"  {what}: median {statistics.median(values):.1f} ms, p99 {ordered[int(len(ordered) * 0.99)]:.1f} ms, "
                f"longest {ordered[-1]:.1f} ms, of {len(values)} ({told['lanes']} lanes, {told['holds']:,} holds)"
            )
        if statistics.median(told["frames"]) >= 16 or max(told["frames"]) >= 50:
            missed.append("frames take too long")
        browser.close()
    print("; ".join(missed) or "targets met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
