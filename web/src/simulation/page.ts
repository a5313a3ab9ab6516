/** The page of a simulation: its figures, the curves of a sweep, and the timelines of runs one below the other. */

import { h } from "../lib/dom.ts";
import { tableOf } from "../lib/table.ts";
import type { Curve, SimulationPage } from "../schema.ts";
import { ending, launches } from "../trace/page.ts";
import { drawn, logarithmic, tableOfCurve } from "./curve.ts";

const LEAST_PX = 280;
const MOST_PX = 1100;

/** Put the page of a simulation into an element. */
export async function simulationPage(page: SimulationPage, root: HTMLElement): Promise<void> {
  root.append(h("header", {}, h("h1", {}, page.title), ...page.lines.map((line) => h("p", {}, line))));
  const tables = page.sections.map((one) => h("section", {}, h("h2", {}, one.title), ...one.tables.map(tableOf)));
  const notes = page.notes.map(([kind, text]) =>
    h("li", { class: kind === "outside the model" ? "warning" : "" }, kind === "note" ? text : `${kind}: ${text}`),
  );
  // The curves of a sweep stand before the figures, because they show most.
  const curves = page.curves.length > 0 && h("section", { id: "curves" }, h("h2", {}, "Curves"), ...page.curves.map(figure));
  if (curves) root.append(curves);
  root.append(...tables);
  if (notes.length) root.append(h("section", { id: "notes" }, h("h2", {}, "What this rests on"), h("ul", { class: "findings" }, ...notes)));
  await launches(page.views, root);
  root.append(ending(page.version));
}

/** Return a curve with its table; the curve is drawn again when the available width changes. */
function figure(curve: Curve): HTMLElement {
  const canvas = h("div", { class: "plot" });
  const table = h("div", { hidden: true }, tableOf(tableOfCurve(curve)));
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-pressed": "false",
      click: () => {
        table.hidden = !table.hidden;
        canvas.hidden = !table.hidden;
        button.setAttribute("aria-pressed", String(!table.hidden));
        button.textContent = table.hidden ? "Table" : "Curve";
      },
    },
    "Table",
  );
  let width = 0;
  const draw = (): void => {
    const wide = Math.max(LEAST_PX, Math.min(canvas.clientWidth, MOST_PX));
    if (!canvas.clientWidth || wide === width) return;
    width = wide;
    canvas.replaceChildren(...drawn(curve, wide));
  };
  new ResizeObserver(draw).observe(canvas);
  requestAnimationFrame(draw);
  const log = logarithmic(curve) ? ", logarithmic" : "";
  return h("figure", { class: "chart curve" }, h("figcaption", {}, `${curve.title}${log} `, button), canvas, table);
}
