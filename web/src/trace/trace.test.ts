import assert from "node:assert/strict";
import { test } from "node:test";
import type { Columns } from "../lib/columns.ts";
import type { TraceView } from "../schema.ts";
import { perfettoJson } from "./export.ts";
import { treeOf } from "./flame.ts";
import { type Kind, KINDS, Model, type Selected } from "./model.ts";
import { nextHit, search, strokes } from "./search.ts";
import { around, LEAST_NS, moved, ticksOf, within, zoomed } from "./window.ts";

type Span = readonly [start: number, end: number, stack: number];

/** Return numbers that are the same in every run. */
function random(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

function modelOf(lanes: readonly { holds: readonly Span[]; waits: readonly Span[]; gil?: number; thread?: number }[], bins?: Columns): Model {
  const columns = new Map<string, Float64Array>(bins);
  const shown: TraceView["lanes"][number][] = [];
  for (const kind of ["hold", "wait"] as const) {
    const rows = lanes.flatMap((lane) => {
      let at = 0;
      return (kind === "hold" ? lane.holds : lane.waits).map(([start, end, stack]) => {
        const gap = start - at;
        at = end;
        return [gap, end - start, stack] as const;
      });
    });
    for (const [place, name] of ["gap", "length", "stack"].entries()) {
      columns.set(`${kind}_${name}`, Float64Array.from(rows, (row) => row[place]!));
    }
    columns.set(`${kind}_flags`, new Float64Array(rows.length));
  }
  let [hold, wait] = [0, 0];
  for (const [place, lane] of lanes.entries()) {
    shown.push({
      label: `thread ${place}`,
      thread: lane.thread ?? place,
      gil: lane.gil ?? 0,
      start_ns: 0,
      end_ns: 1000,
      first_hold: hold,
      holds: lane.holds.length,
      first_wait: wait,
      waits: lane.waits.length,
      held_ns: lane.holds.reduce((sum, [start, end]) => sum + end - start, 0),
      waited_ns: lane.waits.reduce((sum, [start, end]) => sum + end - start, 0),
      summary: "",
    });
    hold += lane.holds.length;
    wait += lane.waits.length;
  }
  // 1 is main, 2 is main -> work, 3 is main -> read.
  columns.set("stack_parent", Float64Array.from([0, 0, 1, 1]));
  columns.set("stack_frame", Float64Array.from([0, 1, 2, 3]));
  columns.set("stack_held", Float64Array.from([5, 0, 30, 10]));
  columns.set("stack_waited", Float64Array.from([0, 7, 0, 0]));
  const frame = (name: string): TraceView["frames"][number] => ({ function: name, place: `app.py:${name.length}`, file: "/srv/app.py" });
  const view = {
    title: "app.py (pid 1)",
    begin_ns: 5_000,
    span_ns: 1000,
    bins: bins ? bins.get("bin_held")!.length / lanes.length : 0,
    lanes: shown,
    gils: [{ name: "the main GIL", summary: "" }, { name: "GIL 1", summary: "" }],
    frames: [{ function: "?", place: "?", file: "" }, frame("main"), frame("work"), frame("read")],
  } as unknown as TraceView;
  return new Model(view, columns);
}

function spansOf(next: () => number): Span[] {
  const found: Span[] = [];
  for (let at = Math.floor(next() * 30); at < 980; ) {
    const end = Math.min(1000, at + Math.floor(next() * 20));
    found.push([at, end, Math.floor(next() * 4)]);
    at = end + Math.floor(next() * 25);
  }
  return found;
}

const shared = (one: readonly number[], from: number, to: number): number => Math.max(0, Math.min(one[1]!, to) - Math.max(one[0]!, from));

test("shares of pixels are exactly what was held in them", () => {
  const next = random(7);
  for (let round = 0; round < 40; round += 1) {
    const holds = spansOf(next);
    const model = modelOf([{ holds: spansOf(next), waits: [] }, { holds, waits: [] }]);
    const from = next() * 400;
    const to = from + 1 + next() * 599;
    const into = new Float32Array(1 + Math.floor(next() * 90));
    model.shares(1, "hold", from, to, into);
    const width = (to - from) / into.length;
    for (const [place, share] of into.entries()) {
      const low = from + place * width;
      const wanted = holds.reduce((sum, one) => sum + shared(one, low, low + width), 0) / width;
      assert.ok(Math.abs(share - wanted) < 1e-4, `${share} for ${wanted}`);
    }
  }
});

test("a lane without intervals has no shares", () => {
  const into = Float32Array.from([9, 9]);
  modelOf([{ holds: [], waits: [] }]).shares(0, "wait", 0, 1000, into);
  assert.deepEqual([...into], [0, 0]);
});

test("shares of bins are those of the bins that a pixel covers", () => {
  const bins = new Map([
    ["bin_held", Float64Array.from([65_535, 0, 65_535, 65_535])],
    ["bin_waited", new Float64Array(4)],
  ]);
  const model = modelOf([{ holds: [[0, 250, 1]], waits: [] }], bins);
  const into = new Float32Array(2);
  model.shares(0, "hold", 0, 1000, into);
  assert.deepEqual([...into], [0.5, 1]);
  model.shares(0, "hold", 125, 625, into);
  assert.deepEqual([...into], [0.5, 0.5]);
  assert.equal(model.total(0, "hold"), 250);
  assert.ok(!model.exact(300) && model.exact(100));
});

test("who held while somebody waited is who overlaps, at the same GIL only", () => {
  const next = random(11);
  for (let round = 0; round < 40; round += 1) {
    const lanes = [0, 0, 1].map((gil) => ({ holds: spansOf(next), waits: spansOf(next), gil }));
    const model = modelOf(lanes);
    const row = Math.floor(next() * lanes[0]!.waits.length);
    const [from, to] = lanes[0]!.waits[row]!;
    const met = model.met({ lane: 0, kind: "wait", row });
    const wanted = lanes[1]!.holds.filter(([start, end]) => end > from && start < to);
    assert.deepEqual(met.map((who) => who.lane), wanted.length ? [1] : []);
    if (!wanted.length) continue;
    assert.equal(met[0]!.count, wanted.length);
    assert.equal(met[0]!.ns, wanted.reduce((sum, one) => sum + shared(one, from, to), 0));
    const longest = Math.max(...wanted.map((one) => shared(one, from, to)));
    const best = lanes[1]!.holds[met[0]!.row - lanes[0]!.holds.length]!;
    assert.equal(shared(best, from, to), longest);
  }
});

test("what is at an instant is what covers it, or the nearest within reach", () => {
  const model = modelOf([{ holds: [[100, 200, 2], [300, 301, 3]], waits: [[40, 90, 1]] }]);
  assert.deepEqual(model.at(0, 150, 0), { lane: 0, kind: "hold", row: 0 });
  assert.deepEqual(model.at(0, 50, 0), { lane: 0, kind: "wait", row: 0 });
  assert.deepEqual(model.at(0, 305, 10), { lane: 0, kind: "hold", row: 1 });
  assert.equal(model.at(0, 250, 10), null);
});

test("a time off the GIL is between what a lane holds and waits, at the stack of the hold before", () => {
  const lane = { holds: [[100, 200, 2], [500, 600, 3]] as Span[], waits: [[450, 500, 1]] as Span[] };
  const model = modelOf([lane, { ...lane, gil: -1 }]);
  assert.deepEqual(model.away(0, 300), { lane: 0, from: 200, to: 450, hold: 0 });
  assert.deepEqual(model.away(0, 50), { lane: 0, from: 0, to: 100, hold: -1 });
  assert.deepEqual(model.away(0, 700), { lane: 0, from: 600, to: 1000, hold: 1 });
  for (const instant of [150, 460, 550, 1001]) assert.equal(model.away(0, instant), null);
  assert.equal(model.away(1, 300), null);
});

test("next and previous go through a lane's holds and waits by time, and back", () => {
  const model = modelOf([{ holds: [[100, 200, 2], [300, 301, 3]], waits: [[40, 90, 1], [210, 300, 1]] }]);
  let one = { lane: 0, kind: "wait" as Kind, row: 0 };
  const seen = [one];
  for (let step = 0; step < 3; step += 1) {
    one = model.next(one, 1)! as typeof one;
    seen.push(one);
  }
  assert.deepEqual(seen.map(({ kind, row }) => `${kind} ${row}`), ["wait 0", "hold 0", "wait 1", "hold 1"]);
  assert.equal(model.next(one, 1), null);
  for (let step = 2; step >= 0; step -= 1) {
    one = model.next(one, -1)! as typeof one;
    assert.deepEqual(one, seen[step]);
  }
  assert.equal(model.next(one, -1), null);
});

test("a search finds threads, and intervals by the functions of their stacks", () => {
  const model = modelOf([
    { holds: [[100, 200, 2], [300, 310, 3]], waits: [[40, 90, 1]] },
    { holds: [[200, 260, 2]], waits: [] },
  ]);
  const work = search(model, " WORK")!;
  assert.deepEqual(work.rows.map(({ hold, wait }) => [[...hold], [...wait]]), [[[0], []], [[2], []]]);
  assert.deepEqual([work.lines, work.ofLines], [1, { hold: 30, wait: 0 }]);
  const main = search(model, "main")!;
  assert.deepEqual(main.ofLines, { hold: 40, wait: 7 });
  const thread = search(model, "thread 0")!;
  assert.deepEqual([...thread.lanes], [0]);
  assert.deepEqual(thread.ofThreads, { hold: 110, wait: 50 });
  assert.deepEqual([...thread.rows[0]!.hold], [0, 1]);
  assert.equal(search(model, "  "), null);
});

test("going through what is found meets each once, by time, in both directions, and begins again", () => {
  const next = random(5);
  for (let round = 0; round < 30; round += 1) {
    const model = modelOf([0, 0, 1].map((gil) => ({ holds: spansOf(next), waits: spansOf(next), gil })));
    const found = search(model, "work")!;
    const all: Selected[] = found.rows.flatMap((kinds, lane) => KINDS.flatMap((kind) => [...kinds[kind]].map((row) => ({ lane, kind, row }))));
    for (const step of [1, -1] as const) {
      const seen: Selected[] = [];
      let one = nextHit(model, found, step > 0 ? 0 : 1000, step)!;
      for (const _ of all) {
        seen.push(one);
        one = nextHit(model, found, one, step)!;
      }
      assert.deepEqual(one, seen[0]);
      assert.equal(new Set(seen.map((hit) => JSON.stringify(hit))).size, all.length);
      const times = seen.map((hit) => model[hit.kind].start[hit.row]! * step);
      assert.deepEqual([...times].sort((x, y) => x - y), times);
    }
  }
});

test("a long hit has its stroke also right after a short one, and a pixel has two at most", () => {
  const after = modelOf([{ holds: [[0, 2, 2], [3, 500, 2]], waits: [] }]);
  const all = Uint32Array.from([0, 1]);
  assert.deepEqual([...strokes(all, after.hold, { from: 0, to: 1000 }, 10)], [[0, 2], [3, 500]]);
  const next = random(13);
  for (let round = 0; round < 40; round += 1) {
    const spans = spansOf(next);
    const { hold } = modelOf([{ holds: spans, waits: [] }]);
    const [from, pixel] = [next() * 400, 1 + next() * 40];
    const window = { from, to: from + next() * 600 };
    const drawn = [...strokes(Uint32Array.from(spans.keys()), hold, window, pixel)];
    const pixels = (window.to - from) / pixel + 1;
    assert.ok(drawn.length <= 2 * pixels + 2, `${drawn.length} in ${pixels}`);
    for (const [start, end] of spans) {
      if (end < from || start > window.to) continue;
      const near = drawn.some(([x, y]) => Math.max(0, x - pixel - end, start - y - pixel) === 0);
      const covered = end - start < pixel || drawn.some(([x, y]) => x === start && y === end);
      assert.ok(near && covered, `${start} to ${end}`);
    }
  }
});

test("a flame graph has all time, and no child more than its parent", () => {
  const model = modelOf([{ holds: [], waits: [] }]);
  const root = treeOf(model, model.stackHeld);
  assert.equal(root.ns, 45);
  const main = root.children.get(1)!;
  assert.equal(main.ns, 40);
  assert.deepEqual([...main.children.values()].map((node) => node.ns), [30, 10]);
  assert.equal(root.children.get(0)!.ns, 5);
  assert.equal(treeOf(model, model.stackWaited).ns, 7);
});

test("windows stay within the whole and no shorter than there is to see", () => {
  const next = random(3);
  for (let round = 0; round < 500; round += 1) {
    const span = 1 + Math.floor(next() * 1e6);
    let one = within(next() * span, next() * span, span);
    one = [
      () => zoomed(one, Math.exp(next() * 8 - 4), next(), span),
      () => moved(one, next() * 4 - 2, span),
      () => around(next() * span, next() * span, span),
    ][Math.floor(next() * 3)]!();
    assert.ok(one.from >= 0 && one.to <= span + 1e-6, `${one.from} to ${one.to} of ${span}`);
    assert.ok(one.to - one.from >= Math.min(LEAST_NS, span) - 1e-6);
  }
});

test("what is too short to see is shown around its middle, and what goes beyond an end is moved", () => {
  assert.deepEqual(within(5000, 5010, 10_000), { from: 5005 - LEAST_NS / 2, to: 5005 + LEAST_NS / 2 });
  assert.deepEqual(within(-300, 700, 10_000), { from: 0, to: 1000 });
  assert.deepEqual(around(4000, 5000, 10_000), { from: 3000, to: 6000 });
});

test("a tick stands at the instant that its label tells, also where the view begins later", () => {
  const units = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
  for (const begin of [0, 1.5e9, 1_234_567_891, 1.08e14 + 123]) {
    for (const [from, to] of [[0, 7e9], [3e6, 3e6 + 700], [123_456, 9_876_543]] as const) {
      const ticks = ticksOf({ from, to }, begin, 7);
      assert.ok(ticks.length >= 3, String(ticks.length));
      for (const { at, text } of ticks) {
        const [number, unit] = text.replaceAll(",", "").split(" ") as [string, keyof typeof units];
        assert.ok(at >= from && at <= to, `${at} is not from ${from} to ${to}`);
        assert.ok(Math.abs(Number(number) * units[unit] - (begin + at)) < 0.5, `${text} at ${begin + at}`);
      }
    }
  }
});

test("zooming keeps the instant under the pointer where it is", () => {
  const one = zoomed({ from: 1000, to: 9000 }, 0.5, 0.25, 10_000);
  assert.equal(one.from + (one.to - one.from) * 0.25, 3000);
});

test("the export for Perfetto is JSON with what is in the window, and counts what has no room", () => {
  const model = modelOf([{ holds: [[100, 200, 2], [300, 350, 2], [900, 950, 3]], waits: [[40, 90, 1], [250, 300, 1]] }]);
  const events = (most?: number): { left: number; times: number[][] } => {
    const { pieces, left } = perfettoJson(model, { from: 150, to: 500 }, most);
    const told = JSON.parse(pieces.join("")) as { traceEvents: { ph: string; ts: number; dur: number }[] };
    return { left, times: told.traceEvents.filter((event) => event.ph === "X").map(({ ts, dur }) => [Math.round(ts * 1000) - model.view.begin_ns, Math.round(dur * 1000)]) };
  };
  assert.deepEqual(events(), { left: 0, times: [[100, 100], [300, 50], [250, 50]] });
  assert.deepEqual(events(1), { left: 2, times: [[100, 100]] });
});

test("a thread at two GILs is one thread, and each of its lanes names its GIL", () => {
  const span = [[100, 200, 2]] as const;
  const model = modelOf([{ holds: span, waits: [], thread: 3 }, { holds: span, waits: span, gil: 1, thread: 3 }]);
  const found = search(model, "thread")!;
  assert.deepEqual([found.lanes.size, found.threads], [2, 1]);
  assert.equal(model.words({ lane: 0, kind: "hold", row: 0 }), "thread 0 held the main GIL for 100 ns");
  assert.equal(model.words({ lane: 1, kind: "wait", row: 0 }), "thread 1 waited 100 ns for GIL 1");
  const told = JSON.parse(perfettoJson(model, { from: 0, to: 500 }).pieces.join("")) as { traceEvents: { name: string; args: { name: string } }[] };
  const tracks = told.traceEvents.filter((event) => event.name === "thread_name").map((event) => event.args.name);
  assert.deepEqual(tracks, ["thread 0: the main GIL", "thread 1: GIL 1"]);
});
