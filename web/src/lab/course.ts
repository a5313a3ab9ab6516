/**
 * Draws busy cores over the phases of a launch, as a small drawing: the timed phase, and in grey the phases before it.
 */

import { s } from "../lib/dom.ts";
import { amount, digits } from "../lib/format.ts";
import type { Stretch } from "../schema.ts";

const [WIDTH, HEIGHT] = [180, 26];

/** A stretch as a part of the drawing, from 0 to 1 along both axes; `high` is `null` if it is not known. */
export interface Bar {
  readonly phase: string;
  readonly from: number;
  readonly to: number;
  readonly high: number | null;
  readonly words: string;
}

/** Return the bars of stretches on a machine with `cores` cores. */
export function barsOf(stretches: readonly Stretch[], cores: number): Bar[] {
  const whole = stretches.at(-1)?.until_s || 1;
  let from = 0;
  return stretches.map(({ phase, until_s, cores: busy }) => {
    const known = busy === null ? "too short to tell" : `${digits(busy)} of ${cores} cores busy`;
    const bar = {
      phase,
      from: from / whole,
      to: until_s / whole,
      // CPU times are counted in ticks of 10 ms, so their sum may slightly exceed the cores.
      high: busy === null ? null : Math.min(1, busy / cores),
      words: `${phase}, ${amount(from, "s")} to ${amount(until_s, "s")}: ${known}`,
    };
    from = until_s;
    return bar;
  });
}

/** Return the drawing of busy cores over time. */
export function courseOf(stretches: readonly Stretch[], cores: number): SVGElement {
  const bars = barsOf(stretches, cores);
  const label = bars.map((bar) => bar.words).join("; ");
  const svg = s("svg", { class: "course", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, preserveAspectRatio: "none", role: "img", "aria-label": label });
  for (const bar of bars) {
    const [x, width] = [bar.from * WIDTH, Math.max(0.5, (bar.to - bar.from) * WIDTH)];
    const height = (bar.high ?? 0) * HEIGHT;
    // The background is as high as the drawing, so that the reader can also point at an idle stretch.
    svg.append(
      s(
        "g",
        {},
        s("title", {}, bar.words),
        s("rect", { class: bar.high === null ? "unknown" : "idle", x, y: 0, width, height: HEIGHT }),
        s("rect", { class: bar.phase === "timed" ? "timed" : "before", x, y: HEIGHT - height, width, height }),
      ),
    );
  }
  for (let core = 1; core < cores && cores <= 16; core += 1) {
    const y = HEIGHT * (1 - core / cores);
    svg.append(s("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y }));
  }
  return svg;
}
