/** The common parts of the plots: a frame with axes, launches as points, a level with its interval. */

import { s } from "../lib/dom.ts";
import { amount, type Unit } from "../lib/format.ts";
import { type Look, marker } from "../lib/palette.ts";
import type { Scale } from "../lib/scale.ts";
import type { Cell, LabPage, Measure } from "../schema.ts";

/** The parts of a run that are shown; every plot leaves out what the reader has switched off. */
export interface Shown {
  readonly page: LabPage;
  readonly names: ReadonlyMap<string, string>;
  /** Tell whether a cell is shown. */
  has(cell: Cell): boolean;
}

/** Drawings higher than this, in pixels, have an axis above, too, and need room for it. */
export const TALL = 500;
export const ABOVE = 16;
/** The approximate width of an axis letter, in pixels. */
const LETTER = 6.2;

export interface Box {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Return an empty drawing with a label for screen readers. */
export function drawing(box: Box, label: string): SVGSVGElement {
  return s(
    "svg",
    { viewBox: `0 0 ${box.width} ${box.height}`, width: box.width, height: box.height, role: "img", "aria-label": label },
    s("title", {}, label),
  );
}

/** Tell for each word, centred on its place, whether it has room beside those left of it; the leftmost always has. */
export function withRoom(words: readonly (readonly [place: number, text: string])[]): boolean[] {
  const shown = words.map(() => false);
  let taken = -Infinity;
  const fromTheLeft = words.map((word, index) => ({ word, index })).sort((one, other) => one.word[0] - other.word[0]);
  for (const { word: [place, text], index } of fromTheLeft) {
    const half = (text.length * LETTER) / 2;
    if (place - half < taken) continue;
    taken = place + half + LETTER;
    shown[index] = true;
  }
  return shown;
}

/** Draw the axis at the bottom, with its grid. */
export function xAxis(
  svg: SVGElement,
  box: Box,
  scale: Scale,
  unit: Unit,
  title: string,
  ticks = scale.ticks,
  worded: (tick: number) => string = (tick) => amount(tick, unit),
): void {
  const bottom = box.height - box.bottom;
  const words = ticks.map((tick) => [scale(tick), worded(tick)] as const);
  const shown = withRoom(words);
  for (const [place, [x, text]] of words.entries()) {
    svg.append(s("line", { class: "grid", x1: x, x2: x, y1: box.top, y2: bottom }));
    if (!shown[place]) continue;
    svg.append(s("text", { x, y: bottom + 14, "text-anchor": "middle" }, text));
    // If a drawing is higher than the screen, its axis at the bottom may be out of sight.
    if (box.height > TALL) svg.append(s("text", { x, y: box.top - 4, "text-anchor": "middle" }, text));
  }
  svg.append(
    s("text", { class: "axis", x: (box.left + box.width - box.right) / 2, y: box.height - 4, "text-anchor": "middle" }, title),
  );
}

/** Draw the axis on the left, with its grid. */
export function yAxis(svg: SVGElement, box: Box, scale: Scale, unit: Unit): void {
  for (const tick of scale.ticks) {
    const y = scale(tick);
    svg.append(s("line", { class: "grid", x1: box.left, x2: box.width - box.right, y1: y, y2: y }));
    svg.append(s("text", { x: box.left - 5, y: y + 4, "text-anchor": "end" }, amount(tick, unit)));
  }
}

/** Return the values of launches, over which a scale is made. */
export function valuesOf(cells: readonly Cell[], metrics: readonly string[]): number[] {
  return cells.flatMap((cell) => metrics.flatMap((metric) => cell.metrics[metric]?.values ?? []));
}

/** Draw launches as points, each with its value as a tooltip. */
export function points(svg: SVGElement, measure: Measure, unit: Unit, one: Look, place: (value: number) => [number, number]): void {
  for (const value of measure.values) {
    const [x, y] = place(value);
    const mark = marker(one, x, y, 2.6);
    mark.setAttribute("class", "launch");
    mark.append(s("title", {}, amount(value, unit)));
    svg.append(mark);
  }
}

/** Draw an interval along x or y, at `across` on the other axis; an end beyond the drawing is shown as an arrow. */
export function interval(
  svg: SVGElement,
  measure: Measure,
  scale: Scale,
  colour: string,
  along: "x" | "y",
  across: number,
  ends: readonly [number, number],
): void {
  if (measure.low === null || measure.high === null) return;
  const [first, last] = [Math.min(...ends), Math.max(...ends)];
  const places = [scale(measure.low), scale(measure.high)].sort((a, b) => a - b);
  const [low, high] = [Math.max(first, Math.min(last, places[0]!)), Math.max(first, Math.min(last, places[1]!))];
  const line = along === "x" ? { x1: low, x2: high, y1: across, y2: across } : { x1: across, x2: across, y1: low, y2: high };
  svg.append(s("line", { class: "interval", ...line, stroke: colour }));
  for (const [goesOn, place, way] of [[places[0]! < first, low, -1], [places[1]! > last, high, 1]] as const) {
    if (!goesOn) continue;
    const d = along === "x" ? `M${place} ${across - 5}l${5 * way} 5l${-5 * way} 5z` : `M${across - 5} ${place}l5 ${5 * way}l5 ${-5 * way}z`;
    svg.append(s("path", { class: "beyond", d, fill: colour }, s("title", {}, "it goes on beyond the drawing")));
  }
}

/** Group cells by a name, in their order. */
export function grouped(cells: readonly Cell[], name: (cell: Cell) => string): Map<string, Cell[]> {
  const found = new Map<string, Cell[]>();
  for (const cell of cells) {
    const key = name(cell);
    const there = found.get(key);
    if (there) there.push(cell);
    else found.set(key, [cell]);
  }
  return found;
}

/** Group cells by setting, and by placement if there are several. */
export function byPlace(cells: readonly Cell[]): Map<string, Cell[]> {
  const several = new Set(cells.map((cell) => cell.placement)).size > 1;
  return grouped(cells, (cell) => [cell.setting, several ? cell.placement : ""].filter(Boolean).join(", "));
}

/** Return the width of each of several drawings: two stand side by side if there is room. */
export function eachWide(drawings: number, width: number): number {
  return drawings > 1 && width > 640 ? width / 2 - 8 : width;
}

/**
 * Return a function that describes a cell by its setting, placement and interpreter, leaving out those that all cells
 * share.
 */
export function told(cells: readonly Cell[], shown: Shown): (cell: Cell) => string {
  const several = (name: (cell: Cell) => string): boolean => new Set(cells.map(name)).size > 1;
  const parts: ((cell: Cell) => string)[] = [];
  if (several((cell) => cell.setting)) parts.push((cell) => cell.setting);
  if (several((cell) => cell.placement)) parts.push((cell) => cell.placement);
  if (several((cell) => cell.interpreter)) parts.push((cell) => shown.names.get(cell.interpreter) ?? cell.interpreter);
  return (cell) => parts.map((part) => part(cell)).filter(Boolean).join(", ");
}
