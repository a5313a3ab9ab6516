/** Searches for threads and functions: finds lanes by name, and intervals whose stacks have the function. */

import { type Intervals, type Kind, KINDS, type Model, type Selected } from "./model.ts";
import type { Window } from "./window.ts";

interface Times {
  readonly hold: number;
  readonly wait: number;
}

export interface Found {
  /** Lanes of threads whose name has the text. */
  readonly lanes: ReadonlySet<number>;
  /** The number of these threads; one has several lanes if it had to do with several GILs. */
  readonly threads: number;
  /** The times that these threads held and waited. */
  readonly ofThreads: Times;
  /** The number of code lines whose function or file has the text. */
  readonly lines: number;
  /** The times that all threads held and waited in stacks with such a line. */
  readonly ofLines: Times;
  /** For each lane, the rows of the hits, in order. */
  readonly rows: readonly Readonly<Record<Kind, Uint32Array>>[];
}

/**
 * Return the intervals whose thread's name, or a function or file of whose stack, has the text; null if the text is
 * empty.
 */
export function search(model: Model, text: string): Found | null {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const matching = model.view.frames.map(
    (frame) => frame.function.toLowerCase().includes(wanted) || frame.file.toLowerCase().includes(wanted),
  );
  const stacks = new Uint8Array(model.parent.length);
  const ofLines = { hold: 0, wait: 0 };
  // A stack's caller always stands before it.
  for (let stack = 1; stack < stacks.length; stack += 1) {
    if (!matching[model.frame[stack]!] && !stacks[model.parent[stack]!]) continue;
    stacks[stack] = 1;
    ofLines.hold += model.stackHeld[stack]!;
    ofLines.wait += model.stackWaited[stack]!;
  }
  const lanes = new Set<number>();
  const ofThreads = { hold: 0, wait: 0 };
  const rows = model.view.lanes.map((one, lane) => {
    const named = one.label.toLowerCase().includes(wanted);
    if (named) lanes.add(lane);
    const found = { hold: new Uint32Array(0), wait: new Uint32Array(0) };
    for (const kind of KINDS) {
      if (named) ofThreads[kind] += model.total(lane, kind);
      const [first, last] = model.rows(lane, kind);
      const { stack } = model[kind];
      const into = new Uint32Array(last - first);
      let count = 0;
      for (let row = first; row < last; row += 1) if (named || stacks[stack[row]!]) into[count++] = row;
      found[kind] = into.slice(0, count);
    }
    return found;
  });
  const threads = new Set([...lanes].map((lane) => model.view.lanes[lane]!.thread)).size;
  return { lanes, threads, ofThreads, lines: matching.filter(Boolean).length, ofLines, rows };
}

/** Return the first place in an ordered list of rows whose interval begins at or after an instant. */
export function placeFrom(rows: Uint32Array, start: Float64Array, instant: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[rows[middle]!]! >= instant) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Yield the start and the end of a lane's hits in a window, of those that begin within one pixel only the first and the
 * last one. The hits do not overlap, so no other one reaches into a further pixel.
 */
export function* strokes(rows: Uint32Array, of: Pick<Intervals, "start" | "end">, { from, to }: Window, pixel: number): Generator<readonly [number, number]> {
  const { start, end } = of;
  // A hit that began before the window may reach into it.
  let place = Math.max(0, placeFrom(rows, start, from) - 1);
  while (place < rows.length && start[rows[place]!]! <= to) {
    const row = rows[place]!;
    if (end[row]! >= from) yield [start[row]!, end[row]!];
    place = Math.max(place + 1, placeFrom(rows, start, start[row]! + pixel) - 1);
  }
}

/** Return the next hit after (1) or before (-1) an instant; after the last hit, the first one again. */
export function nextHit(model: Model, found: Found, from: Selected | number, step: 1 | -1): Selected | null {
  const instant = typeof from === "number" ? from : model[from.kind].start[from.row]!;
  let best: Selected | null = null;
  let first: Selected | null = null;
  const start = (one: Selected): number => model[one.kind].start[one.row]!;
  /**
   * Tell whether one hit comes before another in the direction of the search; at equal instants, lane, kind and row
   * decide.
   */
  const before = (one: Selected, other: Selected): boolean => {
    const by = start(one) - start(other) || one.lane - other.lane || one.kind.localeCompare(other.kind) || one.row - other.row;
    return by * step < 0;
  };
  for (const [lane, kinds] of found.rows.entries()) {
    for (const kind of KINDS) {
      const rows = kinds[kind];
      if (!rows.length) continue;
      const end: Selected = { lane, kind, row: rows[step > 0 ? 0 : rows.length - 1]! };
      if (!first || before(end, first)) first = end;
      let place = placeFrom(rows, model[kind].start, instant);
      if (step < 0) place = Math.min(rows.length - 1, place);
      // Other hits may begin at the same instant; those after the hit `from` count.
      for (; place >= 0 && place < rows.length; place += step) {
        const one: Selected = { lane, kind, row: rows[place]! };
        const on = typeof from === "number" ? (start(one) - instant) * step >= 0 : before(from, one);
        if (!on) continue;
        if (!best || before(one, best)) best = one;
        break;
      }
    }
  }
  return best ?? first;
}
