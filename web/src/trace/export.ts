/** Exports a window of a trace as JSON for Perfetto and chrome://tracing. */

import { KINDS, type Model } from "./model.ts";
import type { Window } from "./window.ts";

export const MOST_EVENTS = 400_000;

export interface Exported {
  readonly pieces: string[];
  /** The number of holds and waits that were left out. */
  readonly left: number;
}

/**
 * Return the file, in times since the start of the trace, with the first `most` holds and waits, thread by thread; later ones are
 * left out and counted.
 */
export function perfettoJson(model: Model, window: Window, most = MOST_EVENTS): Exported {
  const pieces = ['{"displayTimeUnit":"ns","traceEvents":[\n'];
  const name = (text: string): string => JSON.stringify(text);
  pieces.push(`{"ph":"M","name":"process_name","pid":1,"args":{"name":${name(model.view.title)}}}`);
  let count = 0;
  for (const [lane, one] of model.view.lanes.entries()) {
    const track = model.several ? `${one.label}: ${model.gil(lane)}` : one.label;
    pieces.push(`,\n{"ph":"M","name":"thread_name","pid":1,"tid":${lane + 1},"args":{"name":${name(track)}}}`);
    for (const kind of KINDS) {
      const { start, end, stack } = model[kind];
      const [, last] = model.rows(lane, kind);
      for (let row = model.after(lane, kind, window.from); row < last && start[row]! <= window.to; row += 1) {
        count += 1;
        if (count > most) continue;
        const frame = model.stack(stack[row]!)[0];
        const where = frame ? `,"args":{"where":${name(`${frame.function} (${frame.place})`)}}` : "";
        const what = kind === "hold" ? "holds the GIL" : "waits";
        pieces.push(
          `,\n{"ph":"X","name":"${what}","pid":1,"tid":${lane + 1},"ts":${(model.view.begin_ns + start[row]!) / 1000},"dur":${(end[row]! - start[row]!) / 1000}${where}}`,
        );
      }
    }
  }
  pieces.push("\n]}\n");
  return { pieces, left: Math.max(0, count - most) };
}
