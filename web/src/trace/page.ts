/** The page of a trace: its findings, the timeline with the selected interval, tables and flame graphs. */

import { bytesOf, columnsOf, inflated } from "../lib/columns.ts";
import { h, save } from "../lib/dom.ts";
import { duration, position } from "../lib/format.ts";
import { headOf, scrolled, tableOf } from "../lib/table.ts";
import type { FlameFrame, Table, TracePage, TraceView } from "../schema.ts";
import { perfettoJson } from "./export.ts";
import { flame } from "./flame.ts";
import { type Away, Model, type Selected } from "./model.ts";
import { type Found, nextHit, search } from "./search.ts";
import { Timeline } from "./timeline.ts";
import { around, type Window } from "./window.ts";

const MARKS = { problem: "!", fine: "ok", note: "note" } as const;

/** Put the page of a trace into an element. */
export async function tracePage(page: TracePage, root: HTMLElement): Promise<void> {
  root.append(h("header", {}, h("h1", {}, page.title)));
  await launches(page.views, root);
  root.append(ending(page.version));
}

/** Return the last line of a page. */
export function ending(version: string): HTMLElement {
  return h("footer", {}, h("p", { class: "dim" }, `Headway ${version}. This file is complete: it asks nothing of any network.`));
}

/**
 * Put the timelines of launches into an element, one above the other and moving together, and the rest of each launch
 * below.
 */
export async function launches(all: readonly TraceView[], root: HTMLElement): Promise<void> {
  const labels = [...new Set(all.map((view) => view.label))];
  const span = Math.max(...all.map((view) => view.span_ns), 1);
  const timelines: Timeline[] = [];
  const linked = labels.length > 1;
  const follow = (window: Window): void => {
    if (linked) timelines.forEach((one) => one.show(window, false));
  };
  const rests: HTMLElement[] = [];
  for (const [launch, label] of labels.entries()) {
    const views = all.filter((view) => view.label === label);
    const [above, below] = [h("div", {}), h("section", {})];
    const known = new Map<TraceView, Made>();
    let chosen: TraceView;
    const show = async (view: TraceView): Promise<void> => {
      chosen = view;
      const made = known.get(view) ?? (await process(view, linked ? span : view.span_ns, follow));
      known.set(view, made);
      // The reader may have chosen another view while this one was unpacked.
      if (chosen !== view) return;
      const before = timelines[launch];
      timelines[launch] = made.timeline;
      if (linked && before) made.timeline.show(before.window, false);
      above.replaceChildren(made.picture);
      below.replaceChildren(linked ? h("h2", {}, label) : "", ...made.rest);
    };
    // The timelines stand together, so that they can be compared; the rest of each launch follows after all of them.
    root.append(h("section", { class: "launch" }, linked && h("h2", {}, label), chooser(views, show), above));
    rests.push(below);
    await show(views[0]!);
  }
  root.append(...rests);
  // A printed page uses light colours and has all lanes. A canvas keeps what was drawn on it, so it is drawn again.
  for (const [name, printing] of [["beforeprint", true], ["afterprint", false]] as const) {
    addEventListener(name, () => {
      document.documentElement.classList.toggle("printing", printing);
      timelines.forEach((one) => one.print(printing));
    });
  }
  Object.assign(globalThis, { headwayTimelines: timelines });
}

function chooser(views: readonly TraceView[], show: (view: TraceView) => Promise<void>): HTMLElement | false {
  if (views.length < 2) return false;
  return h(
    "p",
    {},
    h(
      "label",
      {},
      "process ",
      h(
        "select",
        { change: (event) => void show(views[Number((event.target as HTMLSelectElement).value)]!) },
        ...views.map((view, place) =>
          h("option", { value: place }, [view.title, ...view.gils.slice(0, 1).map((one) => one.summary)].join(": ")),
        ),
      ),
    ),
  );
}

interface Made {
  readonly picture: HTMLElement;
  readonly rest: readonly HTMLElement[];
  readonly timeline: Timeline;
}

async function process(view: TraceView, span: number, follow: (window: Window) => void): Promise<Made> {
  const block = document.getElementById(view.block)!.textContent!;
  const model = new Model(view, columnsOf(await inflated(bytesOf(block)), view.columns));
  const details = h("div", { class: "details" }, hint(view));
  const timeline: Timeline = new Timeline(
    model,
    {
      selected: (one) => {
        const focus = details.contains(document.activeElement);
        details.replaceChildren(one ? selection(model, one, (other) => timeline.select(other, true)) : hint(view));
        // The button that led here is gone.
        if (focus) details.querySelector("h3")?.focus({ preventScroll: true });
      },
      away: (one) => details.replaceChildren(whereabouts(model, one)),
      moved: follow,
    },
    span,
  );
  const picture = h(
    "div",
    {},
    ...(view.launch ? [h("p", {}, view.launch)] : []),
    ...view.lines.map((line) => h("p", { class: "dim" }, line)),
    tools(model, timeline),
    timeline.element,
    key(view),
    details,
  );
  const rest = [
    findings(view),
    ...(view.what_if ? [h("p", { class: "advice what-if" }, view.what_if)] : []),
    marks(view, timeline),
    ...view.sections.map((one) => h("section", {}, h("h3", {}, one.title), ...one.tables.map(tableOf), one.each && eachThread(one.each))),
    flames(model),
  ];
  return { picture, rest, timeline };
}

/** Return a table of each thread that is made when a reader opens it: it may have thousands of rows. */
function eachThread(table: Table): HTMLElement {
  const closed = h("summary", {}, `Each thread (${table.rows.length.toLocaleString("en")})`);
  const element = h("details", {
    toggle: () => {
      if (element.children.length === 1) element.append(tableOf(table));
    },
  }, closed);
  return element;
}

function findings(view: TraceView): HTMLElement {
  return h(
    "ul",
    { class: "findings told" },
    ...view.findings.map((one) =>
      h(
        "li",
        { class: one.weight },
        h("span", { class: `badge ${one.weight}` }, MARKS[one.weight]),
        " ",
        one.fact,
        one.cause && h("div", { class: "dim" }, `why: ${one.cause}`),
        one.advice && h("div", { class: "advice" }, `try: ${one.advice}`),
        ...one.predicted.map((text) => h("div", { class: "advice" }, `predicted: ${text}`)),
      ),
    ),
  );
}

function hint(view: TraceView): HTMLElement {
  if (!view.lanes.length) return h("p", { class: "dim" }, "no thread held or waited");
  const what = view.gils.length
    ? `a hold${view.bins ? " or a wait" : ", a wait or a time off the GIL"} to see its thread and line, and the threads that held or waited meanwhile`
    : "a wait to see its thread and line";
  return h(
    "p",
    { class: "dim" },
    `Choose ${what}. Wheel or + and - zoom, the wheel over the names scrolls, drag or arrows move, n and p go to the next and the previous, Home shows all.`,
  );
}

function key(view: TraceView): HTMLElement {
  const item = (name: string, words: string): HTMLElement => h("li", {}, h("span", { class: `swatch ${name}` }), words);
  return h(
    "ul",
    { class: "legend" },
    view.gils.length > 0 && item("hold", "runs with the GIL"),
    item("wait", view.gils.length > 0 ? "waits" : "waits for a lock"),
    item("off", view.gils.length > 0 ? "off the GIL" : "runs, or waits for something else"),
    view.bins > 0 && h("li", { class: "dim" }, "zoomed in, only the longest are shown one by one, before a pale mean: `headway report --since --until` makes a page of a part"),
  );
}

function tools(model: Model, timeline: Timeline): HTMLElement {
  let found: Found | null = null;
  const said = h("output", {});
  const go = (step: 1 | -1): void => {
    const hit = found && nextHit(model, found, timeline.selection ?? timeline.window.from, step);
    if (hit) timeline.select(hit, true);
  };
  const input = h("input", {
    type: "search",
    placeholder: "thread or function",
    "aria-label": "search for a thread or a function",
    input: () => {
      found = search(model, input.value);
      timeline.mark(found);
      said.textContent = found ? words(found) : "";
    },
    keydown: (event) => {
      if ((event as KeyboardEvent).key === "Enter") go((event as KeyboardEvent).shiftKey ? -1 : 1);
    },
  });
  const button = (text: string, click: () => void): HTMLElement => h("button", { type: "button", click }, text);
  return h(
    "div",
    { class: "tools" },
    input,
    button("Previous", () => go(-1)),
    button("Next", () => go(1)),
    said,
    button("Show all", () => timeline.show({ from: 0, to: timeline.span })),
    button("Save the window for Perfetto", () => {
      const { pieces, left } = perfettoJson(model, timeline.window);
      save("window.perfetto.json", "application/json", pieces);
      const short = left > 0 ? `${left.toLocaleString("en")} holds and waits had no room in it` : "it has only the longest holds and waits";
      if (left > 0 || model.view.bins) said.textContent = `${short}: \`headway report --perfetto\` writes all`;
    }),
  );
}

function words(found: Found): string {
  const parts = [];
  const times = (of: { hold: number; wait: number }): string => `held ${duration(of.hold)}, waited ${duration(of.wait)}`;
  const several = (count: number, what: string): string => `${count.toLocaleString("en")} ${what}${count > 1 ? "s" : ""}`;
  if (found.threads) parts.push(`${several(found.threads, "thread")}: ${times(found.ofThreads)}`);
  if (found.lines) parts.push(`${several(found.lines, "line")} of code: ${times(found.ofLines)}`);
  return parts.join("; ") || "not found";
}

function stackOf(frames: readonly FlameFrame[]): HTMLElement {
  if (!frames.length) return h("p", { class: "dim" }, "its stack is not known");
  return h(
    "ol",
    { class: "stack" },
    ...frames.map((frame) => h("li", {}, h("code", {}, frame.function), " ", h("span", { class: "dim", title: frame.file }, frame.place))),
  );
}

function selection(model: Model, one: Selected, choose: (one: Selected) => void): HTMLElement {
  const { start, end, stack } = model[one.kind];
  const length = end[one.row]! - start[one.row]!;
  const lane = model.view.lanes[one.lane]!;
  const met = model.met(one);
  const [other, caption] = one.kind === "wait" ? (["hold", "Who held meanwhile"] as const) : (["wait", "Who waited meanwhile"] as const);
  const rows = met.map((who) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h("button", { type: "button", class: "link", click: () => choose({ lane: who.lane, kind: other, row: who.row }) }, model.view.lanes[who.lane]!.label),
      ),
      h("td", {}, duration(who.ns)),
      h("td", {}, `${((100 * who.ns) / Math.max(1, length)).toFixed(0)} %`),
      h("td", {}, who.count.toLocaleString("en")),
      h("td", {}, where(model.stack(model[other].stack[who.row]!)[0])),
    ),
  );
  const left = one.kind === "wait" && lane.gil >= 0 ? length - met.reduce((sum, who) => sum + who.ns, 0) : 0;
  return h(
    "section",
    { class: "selection" },
    h("h3", { tabindex: -1 }, model.words(one)),
    h(
      "p",
      { class: "dim" },
      [`from ${position(model.view.begin_ns + start[one.row]!, length)} after the start`, ...model.ends(one)].join("; "),
    ),
    stackOf(model.stack(stack[one.row]!)),
    rows.length > 0 &&
      scrolled(
        caption,
        h("table", {}, h("caption", {}, caption), headOf(["", "time", "of it", `${other}s`, "longest at"]), h("tbody", {}, ...rows)),
      ),
    model.view.bins > 0 && h("p", { class: "dim" }, "of the others only the longest holds and waits are in this file"),
    !model.view.bins && left > length * 0.01 && h("p", { class: "dim" }, `no thread held it for ${duration(left)} of that time`),
  );
}

/** Return what is known of a time off the GIL: the thread is where it released the GIL, until it wants the GIL again. */
function whereabouts(model: Model, one: Away): HTMLElement {
  return h(
    "section",
    { class: "selection" },
    h("h3", { tabindex: -1 }, model.awayWords(one)),
    h(
      "p",
      { class: "dim" },
      `from ${position(model.view.begin_ns + one.from, one.to - one.from)} after the start; `,
      one.hold < 0 ? "the line is not known, since the thread did not hold it before" : "it was in the call where it had released it:",
    ),
    one.hold >= 0 && stackOf(model.stack(model.hold.stack[one.hold]!)),
  );
}

function where(frame: FlameFrame | undefined): string {
  return frame ? `${frame.function} (${frame.place})` : "-";
}

function marks(view: TraceView, timeline: Timeline): HTMLElement {
  if (!view.marks.length) return h("div", {});
  return h(
    "section",
    {},
    h("h3", {}, "Look at"),
    h(
      "ul",
      { class: "marks" },
      ...view.marks.map((mark) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "link",
              click: () => {
                timeline.show(around(mark.at_ns, mark.until_ns, timeline.span));
                timeline.chooseAt(mark.lane, (mark.at_ns + mark.until_ns) / 2);
                timeline.element.scrollIntoView({ block: "nearest" });
              },
            },
            mark.text,
          ),
          h("span", { class: "dim" }, ` at ${position(view.begin_ns + mark.at_ns, mark.until_ns - mark.at_ns)}`),
        ),
      ),
    ),
  );
}

function flames(model: Model): HTMLElement {
  return h(
    "section",
    {},
    h("h3", {}, "Flame graphs"),
    model.view.gils.length > 0 && h("figure", {}, h("figcaption", {}, "time that the GIL was held, by the stack that let it go"), flame(model, model.stackHeld, "held")),
    h("figure", {}, h("figcaption", {}, "time that was waited, by the stack that waited"), flame(model, model.stackWaited, "waited")),
  );
}
