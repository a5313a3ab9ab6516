/** The timeline: a lane per thread on a canvas, zoomed and moved by wheel, drag, touch and keyboard. */

import { h } from "../lib/dom.ts";
import { duration, position } from "../lib/format.ts";
import { type Away, type Kind, KINDS, type Model, type Selected } from "./model.ts";
import { type Found, strokes } from "./search.ts";
import { around, moved, ticksOf, type Window, within, zoomed } from "./window.ts";

const LANE = 26;
const BAR = 18;
const AXIS = 22;
const HEAD = 18;
const MOST_LANES = 24;
/** The most lanes on paper. */
const MOST_PRINTED = 200;
/** The height of a piece on paper, as a share of its width, at most: it fits on a page of any paper, also across it. */
const PIECE = 0.6;
const REACH_PX = 4;
/**
 * The least average width of an interval, in pixels, at which intervals are drawn one by one. Narrower ones could not
 * be told apart and would be drawn wider than they are, so shares are drawn in their place.
 */
const PX_EACH = 8;

interface Row {
  readonly lane: number; // -1: the head of a GIL
  readonly gil: number;
  readonly y: number;
}

interface Colours {
  readonly hold: string;
  readonly wait: string;
  readonly ink: string;
  readonly dim: string;
  readonly rule: string;
  readonly card: string;
  readonly mark: string;
  readonly onHold: string;
}

export interface Hears {
  selected(one: Selected | null): void;
  away(one: Away): void;
  moved(window: Window): void;
}

/** The choice of the reader: an interval, or else a time off the GIL, or nothing. */
interface Chosen {
  readonly one: Selected | null;
  readonly away: Away | null;
}

export class Timeline {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  window: Window;
  selection: Selected | null = null;
  /** The time off the GIL that was chosen last; null if an interval was, or nothing. */
  away: Away | null = null;
  found: Found | null = null;
  /** The time that it took to draw each frame, in milliseconds; bench/timeline.py reads it. */
  readonly drawn_ms: number[] = [];

  private context: CanvasRenderingContext2D;
  private readonly scroller: HTMLElement;
  /** The space of the lanes that cannot be seen at once. */
  private readonly beyond: HTMLElement;
  /** The timeline on paper, in pieces, since a page break would cut through a lane of a single canvas. */
  private readonly printed = h("div", { class: "printed" });
  private readonly spoken: HTMLElement;
  private readonly rows: Row[] = [];
  private readonly height: number;
  /** The height of the axis and of the lanes that can be seen at once, or of a piece that is drawn for paper. */
  private tall: number;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private colours!: Colours;
  /** The width of the canvas. */
  private width = 0;
  private wide = 0;
  private labels = 150;
  private asked = false;
  /** The first of the lanes to draw, in pixels, while a piece is drawn for paper; null: the one to which the reader has scrolled. */
  private first: number | null = null;
  /** The place to which the reader has scrolled, while the page is printed. */
  private scrolled = 0;
  private dragged = 0;
  /** The lane that the keyboard chose last, or that of the last selection; -1 before. */
  private lane = -1;
  private readonly shares = { hold: new Float32Array(0), wait: new Float32Array(0) };

  constructor(
    readonly model: Model,
    private readonly hears: Hears,
    readonly span = model.view.span_ns,
  ) {
    this.window = { from: 0, to: Math.max(span, 1) };
    let y = 0;
    let gil = NaN;
    for (const [lane, one] of model.view.lanes.entries()) {
      if (model.several && one.gil !== gil) {
        this.rows.push({ lane: -1, gil: one.gil, y });
        y += HEAD;
      }
      gil = one.gil;
      this.rows.push({ lane, gil, y });
      y += LANE;
    }
    this.height = y;
    this.canvas = h("canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": `timeline of ${model.view.title}: arrow keys move and choose a thread, plus and minus zoom, n and p choose the next and the previous hold or wait, Home shows all`,
    });
    this.context = this.canvas.getContext("2d")!;
    this.spoken = h("p", { class: "spoken", "aria-live": "polite" });
    this.tall = Math.min(this.height, MOST_LANES * LANE) + AXIS;
    this.beyond = h("div", { class: "beyond", style: `height:${this.height + AXIS - this.tall}px` });
    this.scroller = h(
      "div",
      { class: "scroller", style: `height:${this.tall}px`, scroll: () => this.ask() },
      h("div", { class: "sticky" }, this.canvas),
      this.beyond,
    );
    const lanes = model.view.lanes.length;
    const left = lanes > MOST_PRINTED && h("p", { class: "dim on-paper" }, `${MOST_PRINTED} of ${lanes.toLocaleString("en")} lanes; the table of threads has all threads`);
    this.element = h("div", { class: "timeline" }, this.scroller, this.printed, left, this.spoken);
    this.listen();
    new ResizeObserver(() => this.resized()).observe(this.scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resized());
  }

  /** Show a window. */
  show(window: Window, tell = true): void {
    this.window = within(window.from, window.to, Math.max(this.span, 1));
    if (tell) this.hears.moved(this.window);
    this.ask();
  }

  /** Select an interval; `go` also moves the window so that the interval is visible. */
  select(one: Selected | null, go = false): void {
    this.selection = one;
    this.away = null;
    if (one) {
      this.lane = one.lane;
      const start = this.model[one.kind].start[one.row]!;
      const end = this.model[one.kind].end[one.row]!;
      const outside = end < this.window.from || start > this.window.to;
      const tiny = (end - start) * this.wide < (this.window.to - this.window.from) * 3;
      if (go && (outside || tiny)) this.show(around(start, end, this.span));
      this.reveal(one.lane);
      const at = position(this.model.view.begin_ns + start, end - start);
      this.spoken.textContent = [`${this.model.words(one)} at ${at}`, ...this.model.ends(one)].join("; ");
    }
    this.hears.selected(one);
    this.ask();
  }

  /**
   * Draw for paper, which cannot be scrolled: all lanes in the page's printed colours; or as before. The drawing is done
   * at once, without waiting for the next frame.
   */
  print(printing: boolean): void {
    if (printing === this.scroller.hidden) return;
    if (printing) {
      this.scrolled = this.scroller.scrollTop;
      this.resized();
      this.printed.replaceChildren(...this.pieces().map(([from, to]) => this.piece(from, to)));
      this.scroller.hidden = true;
    } else {
      this.printed.replaceChildren();
      this.scroller.hidden = false;
      this.scroller.scrollTop = this.scrolled;
      this.resized();
      this.draw();
    }
  }

  /** Return the pieces for paper, each from a row's begin to a row's end; no piece ends with the head of a GIL. */
  private pieces(): [number, number][] {
    const pieces: [number, number][] = [];
    for (const row of this.rows) {
      if (row.lane === MOST_PRINTED) break;
      const end = row.y + (row.lane < 0 ? HEAD : LANE);
      const last = pieces.at(-1);
      const needed = row.lane < 0 ? end + LANE : end;
      if (last && needed - last[0] + AXIS <= Math.max(PIECE * this.width, AXIS + HEAD + LANE)) last[1] = end;
      else pieces.push([row.y, end]);
    }
    return pieces;
  }

  private piece(from: number, to: number): HTMLCanvasElement {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const [context, tall] = [this.context, this.tall];
    this.context = canvas.getContext("2d")!;
    this.first = from;
    this.tall = to - from + AXIS;
    this.fit(canvas);
    this.draw();
    this.context = context;
    this.first = null;
    this.tall = tall;
    return canvas;
  }

  private get top(): number {
    return this.first ?? this.scroller.scrollTop;
  }

  /** Mark the hits of a search. */
  mark(found: Found | null): void {
    this.found = found;
    this.ask();
  }

  private reveal(lane: number): void {
    const row = this.rows.find((one) => one.lane === lane);
    if (!row) return;
    const room = this.scroller.clientHeight - AXIS;
    if (row.y < this.scroller.scrollTop) this.scroller.scrollTop = row.y;
    else if (row.y + LANE > this.scroller.scrollTop + room) this.scroller.scrollTop = row.y + LANE - room;
  }

  // ---- input of the reader

  private listen(): void {
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      this.dragged = 0;
    });
    this.canvas.addEventListener("pointermove", (event) => this.pointed(event));
    for (const name of ["pointerup", "pointercancel"] as const) {
      this.canvas.addEventListener(name, (event) => {
        if (name === "pointerup" && this.pointers.size === 1 && this.dragged < REACH_PX) this.clicked(event);
        this.pointers.delete(event.pointerId);
      });
    }
    this.canvas.addEventListener("dblclick", (event) => {
      this.show(zoomed(this.window, 0.25, this.share(event.offsetX), this.span));
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.key(event.key)) event.preventDefault();
    });
  }

  private share(x: number): number {
    return Math.min(1, Math.max(0, (x - this.labels) / this.wide));
  }

  private wheel(event: WheelEvent): void {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    const whole = this.window.to - this.window.from >= this.span;
    // When the timeline cannot zoom out further, the page scrolls.
    if (!sideways && whole && event.deltaY > 0) return;
    // Over the names the lanes scroll, or the page: a way back up where the wheel would zoom in.
    if (!sideways && event.offsetX < this.labels) return;
    event.preventDefault();
    const by = (sideways ? event.deltaX || event.deltaY : event.deltaY) * (event.deltaMode === 1 ? 16 : 1);
    if (sideways) this.show(moved(this.window, by / Math.max(1, this.wide), this.span));
    else this.show(zoomed(this.window, Math.exp(Math.max(-400, Math.min(400, by)) / 300), this.share(event.offsetX), this.span));
  }

  private pointed(event: PointerEvent): void {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.hover(event);
      return;
    }
    const [dx, dy] = [event.offsetX - before.x, event.offsetY - before.y];
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const now = Math.max(8, Math.abs(event.offsetX - other.x));
      const then = Math.max(8, Math.abs(before.x - other.x));
      this.show(zoomed(this.window, then / now, this.share((event.offsetX + other.x) / 2), this.span));
    } else {
      this.show(moved(this.window, -dx / this.wide, this.span));
      this.scroller.scrollTop -= dy;
    }
    this.dragged += Math.abs(dx) + Math.abs(dy);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  }

  private laneAt(y: number): number {
    const at = y - AXIS + this.scroller.scrollTop;
    const row = this.rows.find((one) => at >= one.y && at < one.y + LANE && one.lane >= 0);
    return y < AXIS || !row ? -1 : row.lane;
  }

  /** Return what is under the pointer: an interval, or else a time off the GIL. */
  private under(event: MouseEvent): Chosen {
    const lane = this.laneAt(event.offsetY);
    if (lane < 0 || event.offsetX < this.labels) return { one: null, away: null };
    const perPixel = (this.window.to - this.window.from) / this.wide;
    const instant = this.window.from + (event.offsetX - this.labels) * perPixel;
    const one = this.model.at(lane, instant, perPixel * REACH_PX);
    return { one, away: this.model.away(lane, instant) };
  }

  private clicked(event: MouseEvent): void {
    this.choose(this.under(event));
  }

  private choose({ one, away }: Chosen): void {
    this.select(one);
    if (one || !away) return;
    this.away = away;
    this.lane = away.lane;
    this.reveal(away.lane);
    this.spoken.textContent = this.model.awayWords(away);
    this.hears.away(away);
  }

  /** Choose what a lane does at an instant: a hold, a wait, or a time off the GIL. */
  chooseAt(lane: number, instant: number): void {
    this.choose({ one: this.model.at(lane, instant, 0), away: this.model.away(lane, instant) });
  }

  private hover(event: MouseEvent): void {
    const lane = this.laneAt(event.offsetY);
    if (event.offsetX < this.labels && lane >= 0) {
      const one = this.model.view.lanes[lane]!;
      this.canvas.title = `${one.label}: ${one.summary}`;
      return;
    }
    const { one, away } = this.under(event);
    const [kind, row] = one ? [one.kind, one.row] : (["hold", away?.hold ?? -1] as const);
    const frame = row < 0 ? undefined : this.model.stack(this.model[kind].stack[row]!)[0];
    const length = one ? this.model[kind].end[row]! - this.model[kind].start[row]! : away ? away.to - away.from : 0;
    const verb = one ? (kind === "hold" ? "held" : "waited") : `off ${this.model.gil(Math.max(0, lane))} for`;
    this.canvas.title = one || away ? `${verb} ${duration(length)}${frame ? `, ${frame.function} (${frame.place})` : ""}` : "";
  }

  private key(key: string): boolean {
    const lanes = this.model.view.lanes.length;
    if (!lanes) return false;
    switch (key) {
      case "ArrowLeft":
        this.show(moved(this.window, -0.15, this.span));
        return true;
      case "ArrowRight":
        this.show(moved(this.window, 0.15, this.span));
        return true;
      case "+":
      case "=":
        this.show(zoomed(this.window, 0.6, 0.5, this.span));
        return true;
      case "-":
        this.show(zoomed(this.window, 1 / 0.6, 0.5, this.span));
        return true;
      case "Home":
        this.show({ from: 0, to: this.span });
        return true;
      case "ArrowUp":
      case "ArrowDown":
        this.lane = Math.min(lanes - 1, Math.max(0, this.lane + (key === "ArrowDown" ? 1 : -1)));
        this.step(this.middle());
        return true;
      case "n":
      case "p": {
        const one = this.selection ?? this.middle();
        const next = one && (this.selection ? this.model.next(one, key === "n" ? 1 : -1) : one);
        if (next) this.select(next, true);
        return true;
      }
      case "Enter":
        if (this.selection) {
          const { kind, row } = this.selection;
          this.show(around(this.model[kind].start[row]!, this.model[kind].end[row]!, this.span));
        }
        return true;
      case "Escape":
        this.select(null);
        return true;
      default:
        return false;
    }
  }

  /** Return the current thread's interval in the middle of the window, or the one nearest to the middle. */
  private middle(): Selected | null {
    const { from, to } = this.window;
    return this.model.at(Math.max(0, this.lane), (from + to) / 2, this.span);
  }

  /** Select the interval to which the keyboard has come in the current lane, or tell why there is none. */
  private step(one: Selected | null): void {
    this.select(one);
    if (one) return;
    this.reveal(this.lane);
    const { label, summary } = this.model.view.lanes[this.lane]!;
    this.spoken.textContent = `${label}: ${summary}; none of this is among the longest holds and waits, which alone are in this file one by one`;
  }

  // ---- drawing

  private resized(): void {
    if (this.scroller.hidden) return; // on paper
    const style = getComputedStyle(this.element);
    const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
    this.colours = {
      hold: colour("hold"),
      wait: colour("wait"),
      ink: colour("ink"),
      dim: colour("dim"),
      rule: colour("rule"),
      card: colour("card"),
      mark: colour("mark"),
      onHold: colour("on-hold"),
    };
    this.width = this.scroller.clientWidth;
    this.fit(this.canvas);
    this.labels = Math.min(170, Math.max(80, this.width * 0.2));
    this.wide = Math.max(10, this.width - this.labels - 8);
    this.shares.hold = new Float32Array(Math.ceil(this.wide));
    this.shares.wait = new Float32Array(Math.ceil(this.wide));
    this.ask();
  }

  /** Give the canvas of the context its size. */
  private fit(canvas: HTMLCanvasElement): void {
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(this.tall * scale);
    canvas.style.width = `${this.width}px`;
    canvas.style.height = `${this.tall}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  private ask(): void {
    if (this.asked || !this.colours) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      const begun = performance.now();
      this.draw();
      this.drawn_ms.push(performance.now() - begun);
      if (this.drawn_ms.length > 5000) this.drawn_ms.splice(0, 1000);
    });
  }

  private draw(): void {
    const { context, colours } = this;
    const [width, height] = [this.width, this.tall];
    context.fillStyle = colours.card;
    context.fillRect(0, 0, width, height);
    this.drawAxis(height);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    for (const row of this.rows) {
      const y = row.y + AXIS - this.top;
      if (y + LANE < AXIS || y > height) continue;
      if (row.lane < 0) this.drawHead(row.gil, y);
      else this.drawLane(row.lane, y);
    }
    this.drawMarks();
    context.restore();
  }

  private drawAxis(height: number): void {
    const { context, colours } = this;
    const { from, to } = this.window;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "center";
    for (const { at, text } of ticksOf(this.window, this.model.view.begin_ns, Math.max(2, Math.floor(this.wide / 130)))) {
      const x = this.x(at);
      context.fillStyle = colours.rule;
      context.fillRect(Math.round(x), AXIS - 4, 1, height);
      context.fillStyle = colours.dim;
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.max(this.labels + half - 4, Math.min(x, this.labels + this.wide - half)), AXIS / 2 - 1);
    }
    context.textAlign = "left";
    context.fillText(duration(to - from), 6, AXIS / 2 - 1);
  }

  private x(time: number): number {
    return this.labels + ((time - this.window.from) / (this.window.to - this.window.from)) * this.wide;
  }

  private drawHead(gil: number, y: number): void {
    const { context, colours } = this;
    const one = this.model.view.gils[gil];
    context.fillStyle = colours.dim;
    context.font = "bold 11px system-ui, sans-serif";
    context.fillText(one ? `${one.name}: ${one.summary}` : "waits for locks", 6, y + HEAD / 2);
  }

  private drawLane(lane: number, y: number): void {
    const { context, colours, model } = this;
    const one = model.view.lanes[lane]!;
    const top = y + (LANE - BAR) / 2;
    const dimmed = this.found !== null && !this.found.lanes.has(lane) && this.found.lanes.size > 0;
    context.globalAlpha = dimmed ? 0.45 : 1;
    context.fillStyle = colours.ink;
    context.font = `${this.lane === lane || this.found?.lanes.has(lane) ? "bold " : ""}12px system-ui, sans-serif`;
    context.fillText(this.fitted(one.label), 6, y + LANE / 2);
    const [from, to] = [Math.max(this.labels, this.x(one.start_ns)), Math.min(this.labels + this.wide, this.x(one.end_ns))];
    if (to > from) {
      context.fillStyle = colours.rule;
      context.fillRect(from, top + BAR / 2, to - from, 1);
    }
    if (model.view.bins) {
      // The page has only the longest intervals one by one. The shares of all intervals are drawn behind them, paler.
      const exact = model.exact((this.window.to - this.window.from) / this.wide);
      if (exact) context.globalAlpha *= 0.4;
      this.drawShares(lane, top);
      context.globalAlpha = dimmed ? 0.45 : 1;
      if (exact) this.drawSingly(lane, top);
    } else if (!this.drawSingly(lane, top)) {
      this.drawShares(lane, top);
    }
    if (this.found) this.drawHits(lane, top, this.found);
    context.globalAlpha = 1;
  }

  private readonly widths = new Map<string, string>();

  private fitted(label: string): string {
    const key = `${label} ${this.labels}`;
    let text = this.widths.get(key);
    if (text === undefined) {
      text = label;
      while (text.length > 1 && this.context.measureText(text).width > this.labels - 14) text = `${text.slice(0, -2)}…`;
      this.widths.set(key, text);
    }
    return text;
  }

  /** Draw each interval by itself if few enough are visible; return whether they were drawn. */
  private drawSingly(lane: number, top: number): boolean {
    const { context, model } = this;
    const { from, to } = this.window;
    if (!model.exact((to - from) / this.wide)) return false;
    const ranges = (["wait", "hold"] as const).map((kind) => [
      kind,
      model.after(lane, kind, from),
      Math.min(model.after(lane, kind, to) + 1, model.rows(lane, kind)[1]),
    ] as const);
    if (ranges.some(([, first, last]) => (last - first) * PX_EACH > this.wide)) return false;
    for (const [kind, first, last] of ranges) {
      const { start, end } = model[kind];
      context.fillStyle = this.colours[kind];
      for (let row = first; row < last; row += 1) {
        if (start[row]! > to) break;
        const x = Math.max(this.labels, this.x(start[row]!));
        const wide = Math.max(0.6, Math.min(this.labels + this.wide, this.x(end[row]!)) - x);
        if (kind === "hold") context.fillRect(x, top, wide, BAR);
        else context.fillRect(x, top + BAR / 4, wide, BAR / 2);
      }
      if (kind === "hold") this.drawNames(first, last, top);
    }
    return true;
  }

  private drawNames(first: number, last: number, top: number): void {
    const { context, model } = this;
    const { start, end, stack } = model.hold;
    context.fillStyle = this.colours.onHold;
    context.font = "11px system-ui, sans-serif";
    for (let row = first; row < last; row += 1) {
      const x = Math.max(this.labels, this.x(start[row]!));
      const wide = Math.min(this.labels + this.wide, this.x(end[row]!)) - x;
      if (wide < 60) continue;
      const name = model.stack(stack[row]!)[0]?.function;
      if (!name) continue;
      const room = Math.floor((wide - 8) / 6.2);
      context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, x + 4, top + BAR / 2 + 0.5);
    }
  }

  /** Draw, for each pixel, the share of time held (from the bottom) and waited (above it). */
  private drawShares(lane: number, top: number): void {
    const { context, model } = this;
    const { from, to } = this.window;
    const { hold, wait } = this.shares;
    model.shares(lane, "hold", from, to, hold);
    model.shares(lane, "wait", from, to, wait);
    for (const kind of ["hold", "wait"] as const satisfies readonly Kind[]) {
      context.fillStyle = this.colours[kind];
      // Fill the rectangles one by one: with software rendering, a single path of all of them takes more than twice as
      // long.
      for (let place = 0; place < hold.length; ) {
        const [held, waited] = [hold[place]!, wait[place]!];
        let end = place + 1;
        while (end < hold.length && hold[end] === held && wait[end] === waited) end += 1;
        const share = kind === "hold" ? held : waited;
        if (share > 0) {
          // Even the smallest share is visible.
          const high = Math.max(1, share * BAR);
          const below = kind === "hold" ? 0 : held > 0 ? Math.max(1, held * BAR) : 0;
          context.fillRect(this.labels + place, top + BAR - Math.min(BAR - high, below) - high, end - place, high);
        }
        place = end;
      }
    }
  }

  /** Draw a stroke above each hit of a search that can be seen. */
  private drawHits(lane: number, top: number, found: Found): void {
    const { context, model } = this;
    const pixel = (this.window.to - this.window.from) / this.wide;
    context.fillStyle = this.colours.mark;
    for (const kind of KINDS) {
      for (const [start, end] of strokes(found.rows[lane]![kind], model[kind], this.window, pixel)) {
        const x = Math.max(this.labels, this.x(start));
        const wide = Math.min(this.labels + this.wide, this.x(end)) - x;
        context.fillRect(x, top - 3, Math.max(1.5, wide), 2.5);
      }
    }
  }

  /** Return the lane and the time of what was chosen last. */
  private chosen(): { lane: number; from: number; to: number } | null {
    if (!this.selection) return this.away;
    const { lane, kind, row } = this.selection;
    return { lane, from: this.model[kind].start[row]!, to: this.model[kind].end[row]! };
  }

  private drawMarks(): void {
    const { context, colours } = this;
    const place = (lane: number): number => this.rows.find((row) => row.lane === lane)!.y + AXIS - this.top;
    for (const mark of this.model.view.marks) {
      const x = this.x(mark.at_ns);
      if (x < this.labels || x > this.labels + this.wide) continue;
      const y = place(mark.lane);
      context.fillStyle = mark.kind === "hold" ? colours.ink : colours.mark;
      context.beginPath();
      context.moveTo(x, y + 6);
      context.lineTo(x - 4, y);
      context.lineTo(x + 4, y);
      context.fill();
    }
    const chosen = this.chosen();
    if (!chosen) return;
    const { lane } = chosen;
    const [start, end] = [this.x(chosen.from), this.x(chosen.to)];
    if (end < this.labels || start > this.labels + this.wide) return;
    const left = Math.max(this.labels, start) - 1.5;
    const right = Math.min(this.labels + this.wide, end) + 1.5;
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.strokeRect(left, place(lane) + (LANE - BAR) / 2 - 1.5, Math.max(3, right - left), BAR + 3);
  }
}
