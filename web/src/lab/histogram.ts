/** Draws samples as histograms, a row for each cell; the rows of a group share their scale. */

import { s } from "../lib/dom.ts";
import { amount } from "../lib/format.ts";
import { look } from "../lib/palette.ts";
import type { Cell, Plot } from "../schema.ts";
import { type Box, byPlace, drawing } from "./chart.ts";

const HIGH = 40;
const ROW = HIGH + 6;
const LABEL = 16;
const BINS = 40;
/**
 * The share of a group's samples that lies beyond its scale, in the last bin. A single delayed sample would otherwise
 * leave no room for the others.
 */
const BEYOND = 0.02;

/** Return the lowest and the highest value of a histogram's scale. */
export function spanOf(samples: readonly number[]): [low: number, high: number] {
  const ordered = [...samples].sort((a, b) => a - b);
  const low = ordered[0] ?? 0;
  const high = ordered[Math.max(0, Math.ceil((1 - BEYOND) * ordered.length) - 1)] ?? 1;
  return high > low ? [low, high] : [low * 0.99, low * 1.01 || 1];
}

/**
 * Return the number of samples in each of `count` bins of equal width; samples beyond the scale are in the last bin.
 */
export function binsOf(samples: readonly number[], [low, high]: readonly [number, number], count: number): number[] {
  const bins = Array.from({ length: count }, () => 0);
  for (const one of samples) {
    const place = Math.floor(((one - low) / (high - low)) * count);
    bins[Math.min(count - 1, Math.max(0, place))]! += 1;
  }
  return bins;
}

/** Return the drawing of the cells' samples. */
export function histogram(plot: Plot, all: readonly Cell[], width: number): SVGElement[] {
  const cells = all.filter((cell) => cell.samples.length);
  if (!cells.length) return [];
  const series = [...new Set(cells.map((cell) => cell.series))];
  const groups = byPlace(cells);
  const left = Math.min(width * 0.45, 12 + 6.4 * Math.max(...series.map((one) => one.length)));
  const height = cells.length * ROW + groups.size * 2 * LABEL + 4;
  const box: Box = { width, height, left, right: 28, top: 4, bottom: 4 };
  const svg = drawing(box, plot.title);
  const wide = width - left - box.right;
  let y = box.top;
  for (const [group, members] of groups) {
    if (group) svg.append(s("text", { class: "group", x: 0, y: y + 12 }, group));
    y += LABEL;
    const span = spanOf(members.flatMap((cell) => cell.samples));
    for (const cell of members) {
      const bins = binsOf(cell.samples, span, BINS);
      const most = Math.max(...bins);
      const colour = look(series.indexOf(cell.series)).colour;
      const words = `${cell.series}: ${cell.samples.length} samples, ${cell.metrics[plot.metrics[0]!]?.shown ?? ""}`;
      const row = s("g", { class: "row" }, s("title", {}, words));
      row.append(s("text", { x: left - 8, y: y + HIGH / 2 + 4, "text-anchor": "end" }, cell.series));
      for (const [place, count] of bins.entries()) {
        if (!count) continue;
        const high = Math.max(1, (count / most) * HIGH);
        const from = amount(span[0] + ((span[1] - span[0]) * place) / BINS, plot.unit);
        const bar = s("rect", {
          class: "bin",
          x: left + (wide * place) / BINS,
          width: wide / BINS - 0.5,
          y: y + HIGH - high,
          height: high,
          fill: colour,
        });
        bar.append(s("title", {}, `${count} from ${from}${place === BINS - 1 ? " on" : ""}`));
        row.append(bar);
      }
      svg.append(row, s("line", { class: "grid", x1: left, x2: left + wide, y1: y + HIGH, y2: y + HIGH }));
      y += ROW;
    }
    svg.append(
      s("text", { x: left, y: y + 8 }, amount(span[0], plot.unit)),
      s("text", { x: left + wide, y: y + 8, "text-anchor": "end" }, amount(span[1], plot.unit)),
    );
    y += LABEL;
  }
  return [svg];
}
