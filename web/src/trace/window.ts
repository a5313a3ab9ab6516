/** The window of time that a timeline shows. Each change returns a new window within the whole time. */

import { instant } from "../lib/format.ts";
import { niceTicks } from "../lib/scale.ts";

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** The shortest window: times are recorded in nanoseconds, so a shorter one shows nothing more. */
export const LEAST_NS = 200;

/** Return a window that is moved and cut so that it lies in the whole time. */
export function within(from: number, to: number, span: number): Window {
  const length = Math.min(span, Math.max(to - from, Math.min(LEAST_NS, span)));
  const begin = Math.min(Math.max(0, (from + to - length) / 2), span - length);
  return { from: begin, to: begin + length };
}

/** Return a window `factor` times as long; the instant at `share` of its length stays in place. */
export function zoomed(one: Window, factor: number, share: number, span: number): Window {
  const length = Math.min(span, Math.max(LEAST_NS, (one.to - one.from) * factor));
  const fixed = one.from + (one.to - one.from) * share;
  const from = Math.min(Math.max(0, fixed - length * share), span - length);
  return { from, to: from + length };
}

/** Return a window moved by a share of its length. */
export function moved(one: Window, share: number, span: number): Window {
  const length = one.to - one.from;
  const from = Math.min(Math.max(0, one.from + length * share), Math.max(0, span - length));
  return { from, to: from + length };
}

/** Return a window around an interval, with the interval's length on both sides. */
export function around(from: number, to: number, span: number): Window {
  const length = Math.max(to - from, LEAST_NS);
  return within(from - length, to + length, span);
}

export interface Tick {
  /** The place in the view's time. */
  readonly at: number;
  readonly text: string;
}

/** Return about `count` ticks in a window of a view that begins at `begin_ns`, at round times since the trace's start. */
export function ticksOf(one: Window, begin_ns: number, count: number): Tick[] {
  const ticks = niceTicks(begin_ns + one.from, begin_ns + one.to, count);
  const step = ticks.length > 1 ? ticks[1]! - ticks[0]! : one.to - one.from;
  return ticks.map((tick) => ({ at: tick - begin_ns, text: instant(tick, step) }));
}
