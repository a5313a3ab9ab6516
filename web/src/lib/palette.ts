/** Colours that readers with red-green colour blindness can tell apart (Okabe and Ito), with shapes. */

import { s } from "./dom.ts";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#7a7a7a"];
const SHAPES = ["circle", "square", "triangle", "diamond", "cross"] as const;

export interface Look {
  readonly colour: string;
  readonly shape: (typeof SHAPES)[number];
  readonly dash: string;
}

/** Return the look of the item at a place in a list; no two of forty look the same. */
export function look(place: number): Look {
  const round = Math.floor(place / COLOURS.length);
  return {
    colour: COLOURS[place % COLOURS.length]!,
    shape: SHAPES[(place + round) % SHAPES.length]!,
    dash: ["", "6 3", "2 2", "8 3 2 3"][round % 4]!,
  };
}

/** Return a mark at a place. */
export function marker(one: Look, x: number, y: number, size: number): SVGElement {
  const colour = one.colour;
  switch (one.shape) {
    case "circle":
      return s("circle", { cx: x, cy: y, r: size, fill: colour });
    case "square":
      return s("rect", { x: x - size * 0.9, y: y - size * 0.9, width: size * 1.8, height: size * 1.8, fill: colour });
    case "triangle":
      return s("path", { d: `M${x} ${y - size}l${size} ${size * 1.8}h${-2 * size}z`, fill: colour });
    case "diamond":
      return s("path", { d: `M${x} ${y - size * 1.2}l${size} ${size * 1.2}l${-size} ${size * 1.2}l${-size} ${-size * 1.2}z`, fill: colour });
    default:
      return s("path", {
        d: `M${x - size} ${y - size}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}`,
        stroke: colour,
        "stroke-width": 1.6,
        fill: "none",
      });
  }
}
