/** Draws latency by percentile on a log scale: a drawing for each setting and placement, a line for each series. */

import { s } from "../lib/dom.ts";
import { look } from "../lib/palette.ts";
import { scaleOf } from "../lib/scale.ts";
import type { Cell, Plot } from "../schema.ts";
import { type Box, byPlace, drawing, eachWide, points, valuesOf, yAxis } from "./chart.ts";
import { legend } from "./lines.ts";

/** Return a metric's percentile: `p99` for "latency_p99_s", `p99.9` for "latency_p999_s". */
export function percentileName(metric: string): string {
  const name = metric.replace(/^latency_/, "").replace(/_s$/, "");
  return name.replace(/^p(\d\d)(\d+)$/, "p$1.$2");
}

/** Return the drawings, with their legend. */
export function percentiles(plot: Plot, all: readonly Cell[], width: number): Element[] {
  const cells = all.filter((cell) => plot.metrics.some((metric) => cell.metrics[metric]));
  if (!cells.length) return [];
  const names = [...new Set(cells.map((cell) => cell.series))];
  const facets = byPlace(cells);
  const each = eachWide(facets.size, width);
  const values = valuesOf(cells, plot.metrics);
  return [
    ...(names.length > 1 ? [legend(names)] : []),
    ...[...facets].map(([title, members]) => facet(plot, members, names, values, each, title)),
  ];
}

function facet(
  plot: Plot,
  cells: readonly Cell[],
  names: readonly string[],
  values: readonly number[],
  width: number,
  title: string,
): SVGElement {
  const box: Box = { width, height: 220, left: 62, right: 14, top: title ? 22 : 8, bottom: 24 };
  const step = (box.width - box.right - box.left - 36) / Math.max(1, plot.metrics.length - 1);
  const y = scaleOf(values, box.height - box.bottom, box.top, true);
  const svg = drawing(box, [plot.title, title].filter(Boolean).join(", "));
  if (title) svg.append(s("text", { class: "group", x: box.left, y: 14 }, title));
  yAxis(svg, box, y, plot.unit);
  const x = (place: number): number => box.left + 18 + place * step;
  for (const [place, metric] of plot.metrics.entries()) {
    svg.append(s("text", { x: x(place), y: box.height - 8, "text-anchor": "middle" }, percentileName(metric)));
  }
  for (const cell of cells) {
    const one = look(names.indexOf(cell.series));
    const path: string[] = [];
    for (const [place, metric] of plot.metrics.entries()) {
      const measure = cell.metrics[metric];
      if (measure?.level != null) path.push(`${x(place)} ${y(measure.level)}`);
    }
    if (path.length) svg.append(s("path", { class: "line", d: `M${path.join("L")}`, stroke: one.colour, "stroke-dasharray": one.dash }));
    for (const [place, metric] of plot.metrics.entries()) {
      const measure = cell.metrics[metric];
      if (!measure) continue;
      const group = s("g", { class: "row" }, s("title", {}, `${cell.series}, ${percentileName(metric)}: ${measure.shown}`));
      points(group, measure, plot.unit, one, (value) => [x(place), y(value)]);
      svg.append(group);
    }
  }
  return svg;
}
