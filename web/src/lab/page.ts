/** The page of a run: the machine first, then for each experiment its plots, claims and figures. */

import { h, save } from "../lib/dom.ts";
import { csv, headOf, scrolled, tableOf } from "../lib/table.ts";
import type { Cell, Claimed, LabExperiment, LabPage, Plot } from "../schema.ts";
import type { Shown } from "./chart.ts";
import { comparison } from "./compared.ts";
import { dots } from "./dots.ts";
import { cores, heat } from "./heat.ts";
import { histogram } from "./histogram.ts";
import { lines } from "./lines.ts";
import { percentiles } from "./percentiles.ts";

const ONE_WORKER = "native";

/** A plot on the page; it is drawn again when it is visible and something has changed. */
class Figure {
  readonly element: HTMLElement;
  private readonly canvas = h("div", { class: "plot" });
  private chosen: string;
  private drawn = false;
  private seen = false;

  constructor(
    private readonly plot: Plot,
    private readonly cells: readonly Cell[],
    private readonly shown: Shown,
    newest: string,
  ) {
    const there = [...new Set(cells.map((cell) => cell.interpreter))].filter((id) => id !== ONE_WORKER);
    this.chosen = there.includes(newest) ? newest : (there.at(-1) ?? "");
    const one = !["dots", "histogram", "cores"].includes(plot.kind) && there.length > 1;
    const select = one && h(
      "select",
      {
        "aria-label": `interpreter of: ${plot.title}`,
        change: (event) => {
          this.chosen = (event.target as HTMLSelectElement).value;
          this.changed();
        },
      },
      ...there.map((id) => h("option", { value: id, selected: id === this.chosen }, shown.names.get(id) ?? id)),
    );
    this.element = h("figure", { class: `chart ${plot.kind}` }, h("figcaption", {}, plot.title, " ", select), this.canvas);
    if (!one) this.chosen = "";
  }

  /** Set whether the figure is visible. */
  see(visible: boolean): void {
    this.seen = visible;
    if (visible) this.prepare();
  }

  /** Draw the figure if it is outdated and has a width, which it has not within a closed <details> element. */
  prepare(): void {
    if (!this.drawn && this.canvas.clientWidth) this.draw();
  }

  /** Mark the figure as outdated, because the reader's choices have changed. */
  changed(): void {
    this.drawn = false;
    if (this.seen) this.prepare();
  }

  private draw(): void {
    const cells = this.cells.filter(
      (cell) => this.shown.has(cell) && (!this.chosen || cell.interpreter === this.chosen || cell.interpreter === ONE_WORKER),
    );
    const width = Math.max(300, Math.min(this.canvas.clientWidth, 1100));
    const drawn = this.drawnOf(cells, width);
    this.canvas.replaceChildren(...(drawn.length ? drawn : [h("p", { class: "dim" }, "nothing of this is switched on")]));
    this.drawn = true;
  }

  private drawnOf(cells: readonly Cell[], width: number): Element[] {
    switch (this.plot.kind) {
      case "dots":
        return dots(this.plot, cells, this.shown, width);
      case "histogram":
        return histogram(this.plot, cells, width);
      case "lines":
        return lines(this.plot, cells, this.shown, width);
      case "heat":
        return heat(this.plot, cells);
      case "percentiles":
        return percentiles(this.plot, cells, width);
      case "cores":
        return cores(this.plot, cells, this.shown);
    }
  }
}

/** Put the page of a run into an element. */
export function labPage(page: LabPage, root: HTMLElement): void {
  const names = new Map(page.interpreters.map((one) => [one.id, one.name]));
  names.set(ONE_WORKER, "C");
  const hidden = new Set<string>();
  const shown: Shown = {
    page,
    names,
    has: (cell) => !hidden.has(`interpreter ${cell.interpreter}`) && !hidden.has(`model ${cell.model}`),
  };
  const newest = page.interpreters.filter((one) => !one.free_threaded).at(-1)?.id ?? "";
  const figures: Figure[] = [];
  const figure = (plot: Plot, cells: readonly Cell[]): HTMLElement => {
    const made = new Figure(plot, cells, shown, newest);
    figures.push(made);
    return made.element;
  };
  const sections = page.experiments.map((one) => experiment(one, figure));
  root.append(
    header(page),
    ...(page.compared ? [comparison(page.compared)] : []),
    verdicts(page),
    findings(page),
    contents(page),
    filters(page, hidden, () => figures.forEach((one) => one.changed())),
    ...sections,
    ending(page),
  );
  const of = new Map(figures.map((one) => [one.element as Element, one]));
  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => of.get(entry.target)?.see(entry.isIntersecting)),
    { rootMargin: "600px" },
  );
  figures.forEach((one) => observer.observe(one.element));
  whenIdle(figures.map((one) => () => one.prepare()));
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    figures.forEach((one) => one.prepare());
  });
  addEventListener("afterprint", () => document.documentElement.classList.remove("printing"));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) figures.forEach((one) => one.changed());
    width = innerWidth;
  });
}

/** Draw figures that are not visible yet in idle time, so that they are ready when the reader scrolls to them. */
function whenIdle(work: (() => void)[]): void {
  const later = globalThis.requestIdleCallback ?? ((then: () => void) => setTimeout(then, 50));
  const go = (): void => {
    const end = performance.now() + 20;
    while (work.length && performance.now() < end) work.shift()!();
    if (work.length) later(go);
  };
  later(go);
}

function header(page: LabPage): HTMLElement {
  return h(
    "header",
    {},
    h("h1", {}, page.title),
    ...page.heading.map((line) => h("p", {}, line)),
    ...page.warnings.map((line) => h("p", { class: "warning" }, line)),
  );
}

/** Return a table with a row for each claim: its verdict, the deciding figure, and the published figure. */
function verdicts(page: LabPage): HTMLElement {
  const claims = page.experiments.flatMap((one) => one.claims);
  const rows = claims.map((one) =>
    h(
      "tr",
      {},
      h("td", {}, badge(one.outcome)),
      h("th", { scope: "row" }, h("a", { href: `#${anchor(one.id)}` }, one.text)),
      h("td", {}, one.outcomes.find((outcome) => outcome.outcome === one.outcome)?.figures ?? "-"),
      h("td", {}, one.published || "-"),
    ),
  );
  const outcomes = [...new Set(claims.map((one) => one.outcome))];
  const select = h(
    "select",
    {
      "aria-label": "verdicts shown",
      change: () => rows.forEach((row, place) => (row.hidden = select.value !== "" && claims[place]!.outcome !== select.value)),
    },
    h("option", { value: "" }, "all"),
    ...outcomes.map((one) => h("option", { value: one }, one)),
  );
  return h(
    "section",
    { id: "verdicts" },
    h("h2", {}, `Verdicts on this machine: ${page.counts.summary}`),
    ...page.counts.doubts.map((line) => h("p", { class: "warning" }, line)),
    claims.length > 0 && h("p", {}, select),
    claims.length > 0 &&
      scrolled(
        "claims",
        h("table", {}, headOf(["verdict", "claim", "measured [interval]", "published"]), h("tbody", {}, ...rows)),
        "claims",
      ),
  );
}

function findings(page: LabPage): HTMLElement {
  const items = page.findings.map((one) =>
    h(
      "li",
      {},
      one.text,
      h("div", { class: "dim" }, h("a", { href: `#${anchor(one.experiment)}` }, one.experiment), `: ${one.evidence}`),
      one.advice && h("div", { class: "advice" }, one.advice),
    ),
  );
  return h(
    "section",
    { id: "findings" },
    h("h2", {}, "Findings on this machine"),
    items.length
      ? h("ul", { class: "findings" }, ...items)
      : h("p", {}, page.experiments.some((one) => one.claims.length) ? "none beyond the verdicts above" : "none"),
  );
}

function anchor(name: string): string {
  return name.replaceAll("/", "--");
}

function badge(outcome: string): HTMLElement {
  return h("span", { class: `badge ${outcome.replaceAll(" ", "-")}` }, outcome);
}

function contents(page: LabPage): HTMLElement {
  return h(
    "nav",
    { "aria-label": "experiments" },
    h(
      "ul",
      { class: "contents" },
      ...page.experiments.map((one) => h("li", {}, h("a", { href: `#${anchor(one.name)}` }, one.name))),
    ),
  );
}

function filters(page: LabPage, hidden: Set<string>, changed: () => void): HTMLElement {
  const models = [...new Set(page.experiments.flatMap((one) => one.cells.map((cell) => cell.model)))];
  const box = (key: string, label: string): HTMLElement =>
    h(
      "label",
      {},
      h("input", {
        type: "checkbox",
        checked: true,
        change: (event) => {
          if ((event.target as HTMLInputElement).checked) hidden.delete(key);
          else hidden.add(key);
          changed();
        },
      }),
      label,
    );
  return h(
    "form",
    { class: "filters", "aria-label": "what plots show" },
    h("fieldset", {}, h("legend", {}, "CPython"), ...page.interpreters.map((one) => box(`interpreter ${one.id}`, one.name))),
    h("fieldset", {}, h("legend", {}, "models"), ...models.map((one) => box(`model ${one}`, one))),
  );
}

function claim(one: Claimed): HTMLElement {
  const beside = one.published ? `; published ratio ${one.published}` : "";
  return h(
    "article",
    { class: "claim", id: anchor(one.id) },
    h("h4", {}, badge(one.outcome), " ", one.text, h("span", { class: "dim" }, ` [${one.source}${beside}]`)),
    ...one.outcomes.map((outcome) =>
      h("p", {}, badge(outcome.outcome), " ", outcome.figures, outcome.sentence && h("div", { class: "dim" }, outcome.sentence)),
    ),
  );
}

function experiment(one: LabExperiment, figure: (plot: Plot, cells: readonly Cell[]) => HTMLElement): HTMLElement {
  const [first, ...more] = one.plots;
  const data = (): string => JSON.stringify({ name: one.name, question: one.question, cells: one.cells }, null, 1);
  return h(
    "section",
    { id: anchor(one.name) },
    h("h2", {}, one.name),
    h("p", { class: "question" }, one.question),
    h("details", {}, h("summary", {}, "How it is measured"), h("p", {}, one.method), h("p", {}, `In the figure: ${one.included}`)),
    first && figure(first, one.cells),
    more.length > 0 && h("details", {}, h("summary", {}, "More plots"), ...more.map((plot) => figure(plot, one.cells))),
    ...one.claims.map(claim),
    h(
      "details",
      { class: "data" },
      h("summary", {}, "Figures"),
      ...one.tables.map(tableOf),
      ...one.notes.map((note) => h("p", { class: note.startsWith("!") ? "warning" : "dim" }, note)),
      h("button", { type: "button", click: () => save(`${one.name}.json`, "application/json", [data()]) }, "JSON"),
      " ",
      h("button", { type: "button", click: () => save(`${one.name}.csv`, "text/csv", [launches(one)]) }, "Launches as CSV"),
    ),
    one.published.length > 0 &&
      h("details", {}, h("summary", {}, "Published beside measured"), ...one.published.map(tableOf)),
  );
}

/** Return an experiment's launches as comma-separated values, a line for each launch and metric. */
export function launches(one: LabExperiment): string {
  const rows = one.cells.flatMap((cell) =>
    Object.entries(cell.metrics).flatMap(([metric, measure]) =>
      measure.values.map((value) =>
        [cell.series, cell.setting, cell.placement, cell.interpreter, metric, String(value)],
      ),
    ),
  );
  return csv({ columns: ["series", "setting", "placement", "interpreter", "metric", "value"], rows });
}

function ending(page: LabPage): HTMLElement {
  return h(
    "footer",
    {},
    page.costs && h("section", {}, h("h2", {}, "Start-up and pickling"), tableOf(page.costs)),
    page.failures.length > 0 &&
      h("section", {}, h("h2", {}, "Failed launches"), ...page.failures.map((line) => h("p", { class: "warning" }, line))),
    page.left_out.length > 0 &&
      h("details", {}, h("summary", {}, "Not run here"), ...page.left_out.map((line) => h("p", { class: "dim" }, line))),
    page.sources.length > 0 &&
      h(
        "section",
        {},
        h("h2", {}, "Sources"),
        h("dl", {}, ...page.sources.flatMap(([letter, text]) => [h("dt", {}, letter), h("dd", {}, text)])),
      ),
    ...page.legend.map((line) => h("p", { class: "dim" }, line)),
    h("p", { class: "dim" }, `Headway ${page.version}. This file is complete: it asks nothing of any network.`),
  );
}
