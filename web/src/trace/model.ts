/**
 * A process of a trace: holds and waits by lane, and figures derived from them. Times are nanoseconds from its start.
 */

import type { Columns } from "../lib/columns.ts";
import { duration } from "../lib/format.ts";
import type { FlameFrame, Lane, TraceView } from "../schema.ts";

export type Kind = "hold" | "wait";
export const KINDS = ["hold", "wait"] as const;

/** The sum of these is an interval's flags: `End` in src/headway/report/html/columns.py. */
const END = { forced: 1, open: 2, after: 4, before: 8 } as const;

/** All intervals of one kind, by lane and then by time; the intervals of a lane do not overlap. */
export interface Intervals {
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly stack: Float64Array;
  /** For each interval, the time in the lane's earlier intervals. */
  readonly before: Float64Array;
  /** For each interval, the facts about its ends. */
  readonly flags: Float64Array;
}

export interface Selected {
  readonly lane: number;
  readonly kind: Kind;
  readonly row: number;
}

/** A lane that held during a wait of another lane, or that waited during a hold of another lane. */
export interface Met {
  readonly lane: number;
  readonly ns: number;
  readonly count: number;
  /** The row of the interval with the longest overlap. */
  readonly row: number;
}

/** A time for which a thread neither held its lane's GIL nor waited for it. */
export interface Away {
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  /** The row of the hold before, which ended where the thread then was; -1 if there is none. */
  readonly hold: number;
}

function intervalsOf(columns: Columns, name: Kind, lanes: readonly (readonly [number, number])[]): Intervals {
  const gap = columns.get(`${name}_gap`)!;
  const length = columns.get(`${name}_length`)!;
  const start = new Float64Array(gap.length);
  const end = new Float64Array(gap.length);
  const before = new Float64Array(gap.length);
  for (const [first, count] of lanes) {
    let at = 0;
    let total = 0;
    for (let row = first; row < first + count; row += 1) {
      start[row] = at + gap[row]!;
      end[row] = at = start[row]! + length[row]!;
      before[row] = total;
      total += length[row]!;
    }
  }
  return { start, end, stack: columns.get(`${name}_stack`)!, before, flags: columns.get(`${name}_flags`)! };
}

function sumsOf(shares: Float64Array, bins: number): Float64Array {
  const lanes = shares.length / bins;
  const sums = new Float64Array(lanes * (bins + 1));
  for (let lane = 0; lane < lanes; lane += 1) {
    for (let bin = 0; bin < bins; bin += 1) {
      const at = lane * (bins + 1) + bin;
      sums[at + 1] = sums[at]! + shares[lane * bins + bin]! / 65_535;
    }
  }
  return sums;
}

export class Model {
  /** The lanes belong to several GILs, or to GILs and to locks. */
  readonly several: boolean;
  readonly hold: Intervals;
  readonly wait: Intervals;
  readonly parent: Float64Array;
  readonly frame: Float64Array;
  readonly stackHeld: Float64Array;
  readonly stackWaited: Float64Array;
  /** For each lane, the time before each bin and before the end, in bins: one number more than there are bins. */
  private readonly binned: Record<Kind, Float64Array | undefined>;

  constructor(
    readonly view: TraceView,
    columns: Columns,
  ) {
    this.several = new Set(view.lanes.map((lane) => lane.gil)).size > 1;
    this.hold = intervalsOf(columns, "hold", view.lanes.map((lane) => [lane.first_hold, lane.holds]));
    this.wait = intervalsOf(columns, "wait", view.lanes.map((lane) => [lane.first_wait, lane.waits]));
    this.parent = columns.get("stack_parent")!;
    this.frame = columns.get("stack_frame")!;
    this.stackHeld = columns.get("stack_held")!;
    this.stackWaited = columns.get("stack_waited")!;
    const sums = (shares: Float64Array | undefined): Float64Array | undefined => shares && sumsOf(shares, view.bins);
    this.binned = { hold: sums(columns.get("bin_held")), wait: sums(columns.get("bin_waited")) };
  }

  /** Return the first row of a lane and the one after its last. */
  rows(lane: number, kind: Kind): readonly [number, number] {
    const one: Lane = this.view.lanes[lane]!;
    return kind === "hold" ? [one.first_hold, one.first_hold + one.holds] : [one.first_wait, one.first_wait + one.waits];
  }

  /** Return the first row of a lane, from row `from` on, that ends after an instant. */
  after(lane: number, kind: Kind, instant: number, from?: number): number {
    const [first, end] = this.rows(lane, kind);
    const ends = this[kind].end;
    let low = Math.max(first, from ?? first);
    let high = end;
    if (from !== undefined) {
      // Callers ask for places from left to right, so the next one is near.
      let step = 1;
      while (low + step < end && ends[low + step]! <= instant) {
        low += step;
        step *= 2;
      }
      high = Math.min(end, low + step + 1);
    }
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle]! > instant) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /**
   * Divide the time from `from` to `to` into equal parts, and fill `into` with the share of each in which a lane held
   * or waited.
   */
  shares(lane: number, kind: Kind, from: number, to: number, into: Float32Array): void {
    const width = (to - from) / into.length;
    if (this.view.bins) {
      this.binnedShares(lane, kind, from, width, into);
      return;
    }
    const { start, end, before } = this[kind];
    const [first, last] = this.rows(lane, kind);
    let row = first;
    let until = 0;
    for (let place = 0; place <= into.length; place += 1) {
      const instant = from + place * width;
      row = this.after(lane, kind, instant, place ? row : undefined);
      const passed =
        row < last
          ? before[row]! + Math.max(0, instant - start[row]!)
          : last > first
            ? before[last - 1]! + end[last - 1]! - start[last - 1]!
            : 0;
      if (place) into[place - 1] = Math.min(1, (passed - until) / width);
      until = passed;
    }
  }

  private binnedShares(lane: number, kind: Kind, from: number, width: number, into: Float32Array): void {
    const bins = this.view.bins;
    const sums = this.binned[kind]!;
    const first = lane * (bins + 1);
    const before = (time: number): number => {
      const at = Math.min(bins, Math.max(0, (time / this.view.span_ns) * bins));
      const bin = Math.min(bins - 1, Math.floor(at));
      return sums[first + bin]! + (at - bin) * (sums[first + bin + 1]! - sums[first + bin]!);
    };
    const whole = (width / this.view.span_ns) * bins;
    let until = before(from);
    for (let place = 0; place < into.length; place += 1) {
      const passed = before(from + (place + 1) * width);
      into[place] = Math.min(1, (passed - until) / whole);
      until = passed;
    }
  }

  /** Return the total time that a lane held or waited. */
  total(lane: number, kind: Kind): number {
    const one = this.view.lanes[lane]!;
    return kind === "hold" ? one.held_ns : one.waited_ns;
  }

  /** Tell whether single intervals can be drawn at a width of a pixel, in ns; otherwise only shares can. */
  exact(width: number): boolean {
    return !this.view.bins || width < this.view.span_ns / this.view.bins;
  }

  /** Return a lane's interval at an instant, or the nearest one within `reach` of it. */
  at(lane: number, instant: number, reach: number): Selected | null {
    let found: Selected | null = null;
    let nearest = reach;
    for (const kind of KINDS) {
      const [first, last] = this.rows(lane, kind);
      const row = this.after(lane, kind, instant);
      for (const one of [row - 1, row]) {
        if (one < first || one >= last) continue;
        const distance = Math.max(this[kind].start[one]! - instant, instant - this[kind].end[one]!, 0);
        if (distance <= nearest) {
          nearest = distance;
          found = { lane, kind, row: one };
        }
      }
    }
    return found;
  }

  /** Return a lane's time off the GIL around an instant; null if there is none, or if this file lacks some of the holds. */
  away(lane: number, instant: number): Away | null {
    const one = this.view.lanes[lane]!;
    if (this.view.bins || one.gil < 0 || instant < one.start_ns || instant > one.end_ns) return null;
    let [from, to] = [one.start_ns, one.end_ns];
    for (const kind of KINDS) {
      const [first, last] = this.rows(lane, kind);
      const row = this.after(lane, kind, instant);
      if (row < last) to = Math.min(to, this[kind].start[row]!);
      if (row > first) from = Math.max(from, this[kind].end[row - 1]!);
    }
    const before = this.after(lane, "hold", instant) - 1;
    return to > instant ? { lane, from, to, hold: before >= one.first_hold ? before : -1 } : null;
  }

  /** Return the next (1) or previous (-1) interval of the same lane. */
  next(one: Selected, step: 1 | -1): Selected | null {
    const instant = this[one.kind].start[one.row]!;
    let found: Selected | null = null;
    let nearest = Infinity;
    for (const kind of KINDS) {
      const [first, last] = this.rows(one.lane, kind);
      const row = kind === one.kind ? one.row + step : this.after(one.lane, kind, instant) - (step < 0 ? 1 : 0);
      if (row < first || row >= last) continue;
      const distance = (this[kind].start[row]! - instant) * step;
      if (distance >= 0 && distance < nearest) {
        nearest = distance;
        found = { lane: one.lane, kind, row };
      }
    }
    return found;
  }

  /** Return the lanes that held during a wait, or that waited during a hold, the longest overlap first. */
  met(one: Selected): Met[] {
    const kind: Kind = one.kind === "wait" ? "hold" : "wait";
    const from = this[one.kind].start[one.row]!;
    const to = this[one.kind].end[one.row]!;
    const gil = this.view.lanes[one.lane]!.gil;
    const { start, end } = this[kind];
    const found: Met[] = [];
    for (const [lane, other] of this.view.lanes.entries()) {
      if (lane === one.lane || other.gil !== gil) continue;
      const [, last] = this.rows(lane, kind);
      let [ns, count, longest, best] = [0, 0, -1, -1];
      for (let row = this.after(lane, kind, from); row < last && start[row]! < to; row += 1) {
        const shared = Math.min(end[row]!, to) - Math.max(start[row]!, from);
        ns += shared;
        count += 1;
        if (shared > longest) [longest, best] = [shared, row];
      }
      if (count) found.push({ lane, ns, count, row: best });
    }
    return found.sort((a, b) => b.ns - a.ns);
  }

  /** Return the name of a lane's GIL. */
  gil(lane: number): string {
    return this.view.gils[this.view.lanes[lane]!.gil]?.name ?? "a lock";
  }

  /** Return an interval's thread, GIL and length in words. */
  words({ lane, kind, row }: Selected): string {
    const length = duration(this[kind].end[row]! - this[kind].start[row]!);
    const { label } = this.view.lanes[lane]!;
    return kind === "hold" ? `${label} held ${this.gil(lane)} for ${length}` : `${label} waited ${length} for ${this.gil(lane)}`;
  }

  /** Return a time off the GIL in words: its thread and its length. */
  awayWords({ lane, from, to }: Away): string {
    return `${this.view.lanes[lane]!.label} was off ${this.gil(lane)} for ${duration(to - from)}`;
  }

  /** Return what is known about an interval's ends, in words; nothing for a wait that began and ended in the window. */
  ends({ kind, row }: Selected): string[] {
    const flags = this[kind].flags[row]!;
    const found = [];
    if (flags & END.before) found.push("it began before this window");
    if (flags & END.after) found.push("it goes on beyond this window");
    else if (flags & END.open) found.push("its end was not recorded");
    else if (kind === "hold") found.push(flags & END.forced ? "released at the request of another thread" : "released by the thread itself");
    return found;
  }

  /** Return a stack's frames, innermost first. */
  stack(index: number): FlameFrame[] {
    const found = [];
    for (let at = index; at > 0; at = this.parent[at]!) found.push(this.view.frames[this.frame[at]!]!);
    return found;
  }
}
