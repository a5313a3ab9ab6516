/** Formats figures in the same way as src/headway/report/figures.py and traces/analysis/words.py. */

import type { Plot } from "../schema.ts";

export type Unit = Plot["unit"];

/** Return a number with three digits: `12.3`, `0.00123`, `1,230`. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(3));
  const size = Math.abs(rounded);
  if (size >= 1000) return rounded.toLocaleString("en", { maximumFractionDigits: 0 });
  if (size < 1e-4) return rounded.toExponential();
  return String(rounded);
}

const STEPS: readonly (readonly [number, string])[] = [
  [1, "ns"],
  [1e3, "us"],
  [1e6, "ms"],
  [1e9, "s"],
];

/** Return a time in a fitting unit, with three digits: `12.3 ms`; a long one to the second: `1,234 s`. */
export function duration(ns: number): string {
  if (Math.abs(ns) >= 999.5e9) return `${Math.round(ns / 1e9).toLocaleString("en")} s`;
  let shown = STEPS[0]!;
  for (const step of STEPS) {
    // A value that rounds to 1,000 us is shown as 1 ms.
    if (Math.abs(Number((ns / step[0]).toPrecision(3))) >= 1) shown = step;
  }
  return `${digits(ns / shown[0])} ${shown[1]}`;
}

/** Return an instant with enough digits to distinguish it from one that is `step` ns away. */
export function instant(ns: number, step: number): string {
  const [unit, name] = [...STEPS].reverse().find(([size]) => Math.abs(ns) >= size) ?? STEPS[0]!;
  const decimals = Math.min(9, Math.max(0, Math.ceil(Math.log10(unit / step))));
  return `${(ns / unit).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })} ${name}`;
}

/** Return the time of something of some length: three digits at least, and enough to tell it from what follows it. */
export function position(ns: number, length: number): string {
  return instant(ns, Math.max(1, Math.min(length, ns / 100)));
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let place = 0;
  // A value that rounds to 1,000 kB is shown as 1 MB.
  while (place < units.length - 1 && Math.max(value, Number(value.toPrecision(3))) >= step) {
    value /= step;
    place += 1;
  }
  return `${digits(value)} ${units[place]}`;
}

/** Return a value with its unit: `12.3 ms`, `38,600/s`, `64 KiB`, `23 %`, or a count, which is written out: `80,712`. */
export function amount(value: number, unit: Unit): string {
  switch (unit) {
    case "s":
      return value === 0 ? "0 s" : duration(value * 1e9);
    case "per_s":
      return `${digits(value)}/s`;
    case "bytes_per_s":
      return `${scaled(value, 1000, ["B", "kB", "MB", "GB"])}/s`;
    case "bytes":
      return scaled(value, 1024, ["B", "KiB", "MiB", "GiB"]);
    case "share":
      return `${digits(value * 100)} %`;
    default:
      return value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : digits(value);
  }
}
