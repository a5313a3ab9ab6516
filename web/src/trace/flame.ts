/** Flame graphs of the time held and the time waited: a tree of frames, each as wide as its time. */

import { h } from "../lib/dom.ts";
import { duration } from "../lib/format.ts";
import type { Model } from "./model.ts";

export interface Node {
  readonly frame: number;
  readonly parent: Node | null;
  readonly children: Map<number, Node>;
  ns: number;
}

/** Return the tree of all stacks by the time in them; its root is the whole. */
export function treeOf(model: Model, times: Float64Array): Node {
  const root: Node = { frame: -1, parent: null, children: new Map(), ns: 0 };
  const nodes: Node[] = [];
  const unknown = times[0] ?? 0;
  // A stack's caller stands before the stack, so the caller's node exists.
  for (let stack = 0; stack < model.parent.length; stack += 1) {
    if (stack === 0 && !unknown) {
      nodes.push(root);
      continue;
    }
    const parent = stack === 0 || model.parent[stack] === 0 ? root : nodes[model.parent[stack]!]!;
    const frame = model.frame[stack]!;
    let node = parent.children.get(frame);
    if (!node) {
      node = { frame, parent, children: new Map(), ns: 0 };
      parent.children.set(frame, node);
    }
    nodes.push(node);
  }
  for (const [stack, node] of nodes.entries()) {
    const ns = times[stack]!;
    if (!ns) continue;
    for (let at: Node | null = node; at; at = at.parent) at.ns += ns;
  }
  return root;
}

const LEAST_SHARE = 0.002;
const ROW_PX = 20;

/** Return a flame graph that zooms into the frame that the reader chooses. */
export function flame(model: Model, times: Float64Array, words: string): HTMLElement {
  const root = treeOf(model, times);
  const canvas = h("div", {
    class: "flame",
    role: "group",
    "aria-label": `${words} by stack; arrow keys go from bar to bar`,
    keydown: (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[(event as KeyboardEvent).key];
      const bars = [...canvas.children] as HTMLElement[];
      const at = bars.indexOf(document.activeElement as HTMLElement);
      if (!step || at < 0) return;
      event.preventDefault();
      bars[Math.min(bars.length - 1, Math.max(0, at + step))]!.focus();
    },
  });
  const where = h("p", { class: "dim", "aria-live": "polite" });

  /** Show what is below a frame. If the focus is in the graph, it goes to the bar of `chosen`, which is drawn anew. */
  function show(top: Node, chosen = top): void {
    const bars: HTMLElement[] = [];
    let focused: HTMLElement | undefined;
    let deepest = 0;
    function place(node: Node, left: number, width: number, depth: number): void {
      deepest = Math.max(deepest, depth);
      const frame = node.frame < 0 ? null : model.view.frames[node.frame]!;
      const name = frame ? frame.function : words;
      const share = `${((100 * node.ns) / root.ns).toPrecision(3)} %`;
      const text = frame ? `${name} (${frame.place}): ${duration(node.ns)}, ${share}` : `${words}: ${duration(node.ns)}`;
      bars.push(
        h(
          "button",
          {
            type: "button",
            class: frame ? `bar tone-${hash(frame.file + frame.function) % 6}` : "bar whole",
            style: `left:${left * 100}%;width:${width * 100}%;top:${depth * ROW_PX}px`,
            title: text,
            tabindex: bars.length ? -1 : 0,
            "aria-label": text,
            click: () => show(node === top && node.parent ? node.parent : node, node),
          },
          width > 0.02 ? name : "",
        ),
      );
      if (node === chosen) focused = bars.at(-1);
      let at = left;
      for (const child of [...node.children.values()].sort((a, b) => b.ns - a.ns)) {
        const part = (width * child.ns) / node.ns;
        if (part >= LEAST_SHARE) place(child, at, part, depth + 1);
        at += part;
      }
    }
    if (root.ns) place(top, 0, 1, 0);
    const focus = canvas.contains(document.activeElement);
    canvas.replaceChildren(...bars);
    if (focus) (focused ?? bars[0])?.focus({ preventScroll: true });
    canvas.style.height = `${(deepest + 1) * ROW_PX}px`;
    where.textContent = top.parent ? "choose the top bar to go back" : root.ns ? "choose a bar to look into it" : "none";
  }
  show(root);
  return h("div", {}, canvas, where);
}

function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const char of text) value = Math.imul(value ^ char.charCodeAt(0), 0x01000193) >>> 0;
  return value >>> 8;
}
