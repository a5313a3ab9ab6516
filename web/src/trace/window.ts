/** The stretch of time that a timeline shows, and its changes: each returns a new one within the whole. */

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Below this nothing is there to see: nanoseconds are the finest that is recorded. */
export const LEAST_NS = 200;

/** Return a window moved and cut so that it lies in the whole. */
export function within(from: number, to: number, span: number): Window {
  const length = Math.min(span, Math.max(to - from, Math.min(LEAST_NS, span)));
  const begin = Math.min(Math.max(0, (from + to - length) / 2), span - length);
  return { from: begin, to: begin + length };
}

/** Return a window `factor` times as long, in which the instant at a share of it stays where it is. */
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

/** Return a window around something, with as much again on both sides. */
export function around(from: number, to: number, span: number): Window {
  const length = Math.max(to - from, LEAST_NS);
  return within(from - length, to + length, span);
}
