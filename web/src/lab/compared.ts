/**
 * Compares two runs: for each cell the ratio of after to before, with its interval, around the line of no difference.
 */

import { h, s } from "../lib/dom.ts";
import { digits } from "../lib/format.ts";
import { scaleOf } from "../lib/scale.ts";
import { tableOf } from "../lib/table.ts";
import type { Compared, Ratio } from "../schema.ts";
import { ABOVE, type Box, drawing, xAxis } from "./chart.ts";

const ROW = 15;

/** Return the section of a comparison. */
export function comparison(one: Compared): HTMLElement {
  const plot = h("div", { class: "plot" });
  new ResizeObserver(() => plot.replaceChildren(forest(one.ratios, Math.max(300, Math.min(plot.clientWidth, 1100))))).observe(plot);
  return h(
    "section",
    { id: "compared" },
    h("h2", {}, one.title),
    ...one.changed.map((line) => h("p", { class: "warning" }, line)),
    h("figure", { class: "chart dots" }, h("figcaption", {}, "after over before, with its 95 % interval"), plot),
    h("details", { class: "data" }, h("summary", {}, "Figures"), tableOf(one.table)),
  );
}

function forest(ratios: readonly Ratio[], width: number): SVGElement {
  const there = ratios.filter((one) => one.value !== null);
  const groups = [...new Set(there.map((one) => one.experiment))];
  const left = Math.min(width * 0.55, 12 + 6.4 * Math.max(0, ...there.map((one) => one.cell.length)));
  const box: Box = { width, height: 50 + (there.length + groups.length) * ROW, left, right: 28, top: ABOVE, bottom: 34 };
  const scale = scaleOf([1, ...there.flatMap((one) => [one.value!, one.low ?? one.value!, one.high ?? one.value!])], left, width - box.right, true);
  const svg = drawing(box, "after over before");
  xAxis(svg, box, scale, "count", "after over before");
  svg.append(s("line", { class: "ideal", x1: scale(1), x2: scale(1), y1: box.top, y2: box.height - box.bottom }));
  let y = box.top + ROW / 2;
  for (const group of groups) {
    svg.append(s("text", { class: "group", x: 0, y: y + 4 }, group));
    y += ROW;
    for (const one of there.filter((ratio) => ratio.experiment === group)) {
      const tone = one.better === null ? "same" : one.better ? "better" : "worse";
      const row = s("g", { class: `row ${tone}` }, s("title", {}, `${one.cell}: ${digits(one.value!)}, ${one.verdict}`));
      row.append(s("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, one.cell));
      if (one.low !== null && one.high !== null) row.append(s("line", { class: "span", x1: scale(one.low), x2: scale(one.high), y1: y, y2: y }));
      row.append(s("circle", { cx: scale(one.value!), cy: y, r: 3.2 }));
      svg.append(row);
      y += ROW;
    }
  }
  return svg;
}
