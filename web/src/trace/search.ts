/** Where a thread or a function is: its lanes, and the intervals whose stacks have it. */

import { type Kind, KINDS, type Model, type Selected } from "./model.ts";

interface Times {
  readonly hold: number;
  readonly wait: number;
}

export interface Found {
  /** Lanes of threads whose name has the text. */
  readonly lanes: ReadonlySet<number>;
  /** How long these threads held and waited. */
  readonly ofThreads: Times;
  /** How many lines of code have it in their function or file. */
  readonly lines: number;
  /** How long was held and waited in stacks with such a line, by all threads. */
  readonly ofLines: Times;
  /** By lane: the rows of what is found, in order. */
  readonly rows: readonly Readonly<Record<Kind, Uint32Array>>[];
}

/** Return what of a trace has a text in the name of its thread, or in a function or file of its stack; null for none. */
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
  return { lanes, ofThreads, lines: matching.filter(Boolean).length, ofLines, rows };
}

/** Return the first place in a list of rows, which are in order, that begins at or after an instant. */
export function placeFrom(rows: Uint32Array, start: Float64Array, instant: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[rows[middle]!]! >= instant) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Return what of the found begins next after (1) or before (-1) an instant, or after the last the first again. */
export function nextHit(model: Model, found: Found, from: Selected | number, step: 1 | -1): Selected | null {
  const instant = typeof from === "number" ? from : model[from.kind].start[from.row]!;
  let best: Selected | null = null;
  let first: Selected | null = null;
  const start = (one: Selected): number => model[one.kind].start[one.row]!;
  /** Whether one comes before another, in the direction of the search; equal instants go by lane, kind and row. */
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
      // The same instant may have others: they come after the one that it is from.
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
