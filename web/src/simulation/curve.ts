/**
 * Draws a figure over a swept parameter: a line for each combination of the other parameters, the range of the seeds as
 * a band.
 */

import { type Box, drawing, xAxis, yAxis } from "../lab/chart.ts";
import { legend, ordinal } from "../lab/lines.ts";
import { s } from "../lib/dom.ts";
import { look, marker } from "../lib/palette.ts";
import { scaleOf, spreads } from "../lib/scale.ts";
import type { Curve, CurvePoint, Table } from "../schema.ts";

/** A point that has a value. */
type Known = CurvePoint & { readonly value: number; readonly low: number; readonly high: number };

/** Return the points of a line in stretches; the line is interrupted where a value is not known. */
export function stretches(points: readonly CurvePoint[]): Known[][] {
  const found: Known[][] = [[]];
  for (const point of points) {
    if (point.value !== null && point.low !== null && point.high !== null) found.at(-1)!.push(point as Known);
    else if (found.at(-1)!.length) found.push([]);
  }
  return found.filter((one) => one.length > 0);
}

/**
 * Tell whether a curve is drawn on a logarithmic scale; only the spread of its medians decides, not the ends of ranges.
 */
export function logarithmic(curve: Curve): boolean {
  return spreads(curve.lines.flatMap((line) => line.points.flatMap((point) => (point.value === null ? [] : [point.value]))));
}

/** Return a curve as a table: a row for each value of the parameter, a column for each line. */
export function tableOfCurve(curve: Curve): Table {
  const rows = curve.x_values.map((value, x) => [
    value,
    ...curve.lines.map((line) => line.points.find((point) => point.x === x)?.shown ?? "-"),
  ]);
  return { caption: curve.title, columns: [curve.x, ...curve.lines.map((line) => line.name || curve.title)], rows, names: 1 };
}

/** Return the legend, if there is more than one line, and the drawing. */
export function drawn(curve: Curve, width: number): Element[] {
  const box: Box = { width, height: 240, left: 62, right: 28, top: 8, bottom: 36 };
  const places = curve.x_values.map((_, place) => place);
  const numbers = curve.x_numbers;
  const far = numbers.length > 8 && spreads(numbers);
  // Few values stand at equal distances; many numbers stand at their places on a numeric scale.
  const [left, right] = [box.left + 14, box.width - box.right - 14];
  const numeric = far || numbers.length > 20 ? scaleOf(numbers, left, right, far) : null;
  const even = ordinal(places, left, right);
  const x = numeric ? Object.assign((place: number) => numeric(numbers[place]!), { ticks: places, log: far }) : even;
  const log = logarithmic(curve);
  const all = curve.lines.flatMap((line) => stretches(line.points).flat());
  const values = log ? all.flatMap((one) => [one.value, ...(one.low > 0 ? [one.low] : []), one.high]) : all.flatMap((one) => [one.low, one.high]);
  const y = scaleOf(values, box.height - box.bottom, box.top, log);
  const svg = drawing(box, `${curve.title} over ${curve.x}`);
  yAxis(svg, box, y, curve.unit);
  xAxis(svg, box, x, "count", curve.x, places, (place) => curve.x_values[place]!);
  for (const [place, line] of curve.lines.entries()) {
    const one = look(place);
    for (const stretch of stretches(line.points)) {
      const over = stretch.map((point) => `${x(point.x)} ${y(point.high)}`);
      const under = [...stretch].reverse().map((point) => `${x(point.x)} ${y(point.low)}`);
      svg.append(s("path", { class: "band", d: `M${[...over, ...under].join("L")}Z`, fill: one.colour, stroke: one.colour }));
    }
  }
  for (const [place, line] of curve.lines.entries()) {
    const one = look(place);
    for (const stretch of stretches(line.points)) {
      const d = `M${stretch.map((point) => `${x(point.x)} ${y(point.value)}`).join("L")}`;
      svg.append(s("path", { class: "line", d, stroke: one.colour, "stroke-dasharray": one.dash }));
      for (const point of stretch) {
        const words = `${[line.name, `${curve.x}=${curve.x_values[point.x]!}`].filter(Boolean).join(", ")}: ${point.shown}`;
        const group = s("g", { class: "row" }, s("title", {}, words));
        // A band with a single point has no area, so draw a line.
        if (stretch.length === 1) group.append(s("line", { class: "interval", x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high), stroke: one.colour }));
        group.append(marker(one, x(point.x), y(point.value), 3.4));
        svg.append(group);
      }
    }
  }
  return curve.lines.length > 1 ? [legend(curve.lines.map((line) => line.name)), svg] : [svg];
}
