/**
 * Draws a metric over a swept parameter: a drawing for each placement, a line for each series, launches as points, the
 * ideal dashed.
 */

import { h, s } from "../lib/dom.ts";
import { amount } from "../lib/format.ts";
import { look, marker } from "../lib/palette.ts";
import { scaleOf, spreads } from "../lib/scale.ts";
import type { Cell, Plot } from "../schema.ts";
import { type Box, drawing, eachWide, grouped, interval, points, type Shown, valuesOf, xAxis, yAxis } from "./chart.ts";

/** Return a legend with the look of each line. */
export function legend(names: readonly string[]): HTMLElement {
  const items = names.map((name, place) => {
    const svg = s("svg", { width: 30, height: 12, "aria-hidden": "true" });
    const one = look(place);
    svg.append(s("line", { x1: 1, x2: 29, y1: 6, y2: 6, stroke: one.colour, "stroke-width": 1.6, "stroke-dasharray": one.dash }));
    svg.append(marker(one, 15, 6, 3.4));
    return h("li", {}, svg, name || "all");
  });
  return h("ul", { class: "legend" }, ...items);
}

/** Return the drawings of a metric over `x`, with their legend. */
export function lines(plot: Plot, all: readonly Cell[], shown: Shown, width: number): Element[] {
  const metric = plot.metrics[0]!;
  const cells = all.filter((cell) => cell.x !== null && cell.metrics[metric]);
  if (!cells.length) return [];
  const names = [...new Set(cells.map((cell) => cell.line))];
  const facets = grouped(cells, (cell) => cell.placement);
  const each = eachWide(facets.size, width);
  const drawn = [...facets].map(([placement, members]) => facet(plot, metric, members, names, shown, each, facets.size > 1 ? placement : ""));
  return names.length > 1 ? [legend(names), ...drawn] : drawn;
}

function facet(
  plot: Plot,
  metric: string,
  cells: readonly Cell[],
  names: readonly string[],
  shown: Shown,
  width: number,
  title: string,
): SVGElement {
  const box: Box = { width, height: 260, left: 62, right: 28, top: title ? 22 : 8, bottom: 36 };
  const xs = [...new Set(cells.map((cell) => cell.x!))].sort((a, b) => a - b);
  const x = xs[0]! > 0 && xs.length > 2 && spreads(xs)
    ? scaleOf(xs, box.left + 10, box.width - box.right, true)
    : ordinal(xs, box.left + 14, box.width - box.right - 14);
  const y = scaleOf(valuesOf(cells, [metric]), box.height - box.bottom, box.top);
  const svg = drawing(box, [plot.title, title].filter(Boolean).join(", "));
  if (title) svg.append(s("text", { class: "group", x: box.left, y: 14 }, title));
  yAxis(svg, box, y, plot.unit);
  xAxis(svg, box, x, plot.x_unit, plot.x, xs.length <= 8 ? xs : x.ticks);
  for (const [line, members] of grouped(cells, (cell) => cell.line)) {
    const one = look(names.indexOf(line));
    const ordered = [...members].sort((a, b) => a.x! - b.x!);
    if (plot.ideal) ideal(svg, plot, ordered, metric, shown, x, y);
    const path = ordered
      .flatMap((cell) => (cell.metrics[metric]!.level === null ? [] : [`${x(cell.x!)} ${y(cell.metrics[metric]!.level!)}`]))
      .join("L");
    if (path) svg.append(s("path", { class: "line", d: `M${path}`, stroke: one.colour, "stroke-dasharray": one.dash }));
    for (const cell of ordered) {
      const measure = cell.metrics[metric]!;
      const at = x(cell.x!);
      const group = s("g", { class: "row" }, s("title", {}, `${[line, amount(cell.x!, plot.x_unit)].filter(Boolean).join(", ")}: ${measure.shown}`));
      interval(group, measure, y, one.colour, "y", at, [box.top, box.height - box.bottom]);
      points(group, measure, plot.unit, one, (value) => [at, y(value)]);
      svg.append(group);
    }
  }
  return svg;
}

/** Return a scale on which the values stand at equal distances. */
export function ordinal(values: readonly number[], from: number, to: number): ReturnType<typeof scaleOf> {
  const step = values.length > 1 ? (to - from) / (values.length - 1) : 0;
  const place = (value: number): number => (values.length > 1 ? from + values.indexOf(value) * step : (from + to) / 2);
  return Object.assign(place, { ticks: values, log: false });
}

function ideal(
  svg: SVGElement,
  plot: Plot,
  cells: readonly Cell[],
  metric: string,
  shown: Shown,
  x: (value: number) => number,
  y: (value: number) => number,
): void {
  const first = cells[0]!;
  const level = first.metrics[metric]!.level;
  if (level === null || first.x === null || first.x <= 0 || cells.length < 2) return;
  const path = cells.map((cell) => {
    const gain = Math.min(cell.x!, shown.page.cores) / Math.min(first.x!, shown.page.cores);
    return `${x(cell.x!)} ${y(plot.ideal === "divided" ? level / gain : level * gain)}`;
  });
  svg.append(s("path", { class: "ideal", d: `M${path.join("L")}` }, s("title", {}, "ideal: the work divided without loss, up to the number of cores")));
}
