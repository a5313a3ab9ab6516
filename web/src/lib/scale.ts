/** Scales: they map values to places, and have ticks. */

export interface Scale {
  /** Return the place of a value. */
  (value: number): number;
  readonly ticks: readonly number[];
  readonly log: boolean;
}

/** Return about `count` ticks from `low` to `high`; their distance is 1, 2 or 5 times a power of ten. */
export function niceTicks(low: number, high: number, count: number): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? 10 * power;
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) {
    // A multiple of a fraction has a rounding error in its last digits; one of a whole number is exact.
    found.push(step < 1 ? Number((at * step).toPrecision(12)) : at * step);
  }
  return found;
}

function logTicks(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const steps = decades > 4 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const step of steps) {
      const value = Number((step * 10 ** power).toPrecision(6));
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  if (found.length > 8) return found.filter((_, place) => place % Math.ceil(found.length / 8) === 0);
  return found.length > 1 ? found : niceTicks(low, high, 4);
}

/** Tell whether the values spread so far that only a logarithmic scale shows all of them. */
export function spreads(values: readonly number[]): boolean {
  const positive = values.filter((value) => value > 0);
  return positive.length === values.length && positive.length > 0 && Math.max(...positive) / Math.min(...positive) > 20;
}

/** Return a scale over values, from place `from` to place `to`; a linear scale includes 0. */
export function scaleOf(values: readonly number[], from: number, to: number, log = spreads(values)): Scale {
  const usable = log ? values.filter((value) => value > 0) : values;
  let low = Math.min(...usable);
  let high = Math.max(...usable);
  if (!usable.length) [low, high] = log ? [1, 10] : [0, 1];
  if (log) {
    [low, high] = [low / 1.15, high * 1.15];
    const [a, b] = [Math.log(low), Math.log(high)];
    const place = (value: number): number => from + ((Math.log(Math.max(value, low)) - a) / (b - a)) * (to - from);
    return Object.assign(place, { ticks: logTicks(low, high), log });
  }
  low = Math.min(0, low);
  high = high > low ? high + (high - low) * 0.05 : low + 1;
  const place = (value: number): number => from + ((value - low) / (high - low)) * (to - from);
  return Object.assign(place, { ticks: niceTicks(low, high, 5), log });
}
