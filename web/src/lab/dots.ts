/** Draws launches as points, a row for each cell, and never a bar of means alone. */

import { s } from "../lib/dom.ts";
import { look } from "../lib/palette.ts";
import { scaleOf } from "../lib/scale.ts";
import type { Cell, Plot } from "../schema.ts";
import { ABOVE, type Box, byPlace, drawing, interval, points, type Shown, TALL, valuesOf, xAxis } from "./chart.ts";

const ROW = 15;

/** Return the drawing of a metric's launches. */
export function dots(plot: Plot, all: readonly Cell[], shown: Shown, width: number): SVGElement[] {
  const metric = plot.metrics[0]!;
  const cells = all.filter((cell) => cell.metrics[metric]);
  if (!cells.length) return [];
  const series = [...new Set(cells.map((cell) => cell.series))];
  const interpreters = new Set(cells.map((cell) => cell.interpreter)).size > 1;
  const groups = byPlace(cells);
  const labels = cells.map((cell) => name(cell).length);
  function name(cell: Cell): string {
    return interpreters ? `${cell.series}, ${shown.names.get(cell.interpreter) ?? "C"}` : cell.series;
  }
  const left = Math.min(width * 0.45, 12 + 6.4 * Math.max(...labels));
  const lines = cells.length + [...groups.keys()].filter(Boolean).length;
  const height = 34 + lines * ROW + 4;
  const top = height > TALL ? ABOVE : 4;
  const box: Box = { width, height: height + top, left, right: 28, top, bottom: 34 };
  const scale = scaleOf(valuesOf(cells, [metric]), box.left, box.width - box.right);
  const svg = drawing(box, plot.title);
  xAxis(svg, box, scale, plot.unit, axisTitle(plot));
  let y = box.top + ROW / 2;
  for (const [group, members] of groups) {
    if (group) {
      svg.append(s("text", { class: "group", x: 0, y: y + 4 }, group));
      y += ROW;
    }
    for (const cell of members) {
      const measure = cell.metrics[metric]!;
      const one = look(series.indexOf(cell.series));
      const row = s("g", { class: "row" }, s("title", {}, `${name(cell)}: ${measure.shown}`));
      row.append(s("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, name(cell)));
      interval(row, measure, scale, one.colour, "x", y, [box.left, box.width - box.right]);
      if (measure.level !== null) {
        const x = scale(measure.level);
        row.append(s("line", { class: "level", x1: x, x2: x, y1: y - 5, y2: y + 5, stroke: one.colour }));
      }
      points(row, measure, plot.unit, one, (value) => [scale(value), y]);
      svg.append(row);
      y += ROW;
    }
  }
  return [svg];
}

/** Return the title of an axis: the direction that is better. */
export function axisTitle(plot: Plot): string {
  return plot.better ? `${plot.better} is better` : "";
}
