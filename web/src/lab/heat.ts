/** Tables whose cells are darker for larger figures: a metric over two parameters, and the busy share of cores. */

import { h } from "../lib/dom.ts";
import { amount } from "../lib/format.ts";
import { spreads } from "../lib/scale.ts";
import { headOf, scrolled } from "../lib/table.ts";
import type { Cell, Plot } from "../schema.ts";
import { grouped, type Shown, told } from "./chart.ts";
import { courseOf } from "./course.ts";

/**
 * Return the look of a cell for a share from 0 to 1. The shade jumps at one half, because text on the shades between
 * could not be read.
 */
function shade(share: number): { class: string; style: string } {
  const part = Math.min(1, Math.max(0, share));
  const high = part > 0.5;
  return { class: high ? "high" : "low", style: `--part:${(2 * (high ? part - 0.5 : part)).toFixed(3)}` };
}

/** Return a function that gives a value's position between the lowest and the highest, from 0 to 1. */
function within(values: readonly number[]): (value: number) => number {
  const log = spreads(values);
  const of = (value: number): number => (log ? Math.log(value) : value);
  const [low, high] = [Math.min(...values.map(of)), Math.max(...values.map(of))];
  return (value) => (high > low ? (of(value) - low) / (high - low) : 0.5);
}

/** Return a table for each placement, with a row for each `y` and a column for each `x`. */
export function heat(plot: Plot, all: readonly Cell[]): HTMLElement[] {
  const metric = plot.metrics[0]!;
  const cells = all.filter((cell) => cell.x !== null && cell.y !== null && cell.metrics[metric]?.level != null);
  if (!cells.length) return [];
  const place = within(cells.map((cell) => cell.metrics[metric]!.level!));
  const facets = grouped(cells, (cell) => cell.placement);
  return [...facets].map(([placement, members]) => {
    const xs = [...new Set(members.map((cell) => cell.x!))].sort((a, b) => a - b);
    const ys = [...new Set(members.map((cell) => cell.y!))].sort((a, b) => b - a);
    const body = ys.map((y) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, amount(y, plot.y_unit)),
        ...xs.map((x) => {
          const measure = members.find((cell) => cell.x === x && cell.y === y)?.metrics[metric];
          if (measure?.level == null) return h("td", {}, "-");
          return h("td", { ...shade(place(measure.level)), title: measure.shown }, amount(measure.level, plot.unit));
        }),
      ),
    );
    const caption = `${plot.y} (rows) and ${plot.x} (columns)${facets.size > 1 ? `, ${placement}` : ""}`;
    const head = headOf(["", ...xs.map((x) => amount(x, plot.x_unit))]);
    return scrolled(plot.title, h("table", { class: "heat" }, h("caption", {}, caption), head, h("tbody", {}, ...body)));
  });
}

/** Return a table with the busy share of each core, and busy cores over time; a row for each cell. */
export function cores(plot: Plot, all: readonly Cell[], shown: Shown): HTMLElement[] {
  const cells = all.filter((cell) => Object.keys(cell.cores).length);
  if (!cells.length) return [];
  const names = [...new Set(cells.flatMap((cell) => Object.keys(cell.cores)))].sort((a, b) => Number(a) - Number(b));
  const where = told(cells, shown);
  const machine = shown.page.cores;
  const timed = cells.some((cell) => cell.course.length);
  const body = cells.map((cell) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, [cell.series, where(cell)].filter(Boolean).join(", ")),
      ...names.map((core) => {
        const share = cell.cores[core];
        return share === undefined ? h("td", {}, "-") : h("td", shade(share), `${Math.round(share * 100)} %`);
      }),
      timed && h("td", { class: "over" }, cell.course.length > 0 && courseOf(cell.course, machine), ends(cell)),
    ),
  );
  const over = `0 to ${machine} cores over time, grey: before it is timed`;
  const head = headOf(["", ...names.map((core) => `core ${core}`), ...(timed ? [over] : [])]);
  return [scrolled(plot.title, h("table", { class: "heat" }, head, h("tbody", {}, ...body)))];
}

function ends(cell: Cell): string {
  const last = cell.course.at(-1);
  return last ? ` ${amount(last.until_s, "s")}` : "-";
}
