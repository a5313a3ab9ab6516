import assert from "node:assert/strict";
import { test } from "node:test";
import type { Curve, CurvePoint } from "../schema.ts";
import { logarithmic, stretches, tableOfCurve } from "./curve.ts";

const point = (x: number, value: number | null): CurvePoint => ({
  x,
  value,
  low: value,
  high: value,
  shown: value === null ? "-" : String(value),
});

const curve = (...lines: (number | null)[][]): Curve => ({
  title: "load done",
  unit: "per_s",
  x: "threads",
  x_values: ["1", "2", "3"],
  x_numbers: [1, 2, 3],
  lines: lines.map((values, place) => ({ name: `policy=${place}`, points: values.map((value, x) => point(x, value)) })),
});

test("a line is interrupted where a value is not known", () => {
  const found = stretches(curve([1, null, 3]).lines[0]!.points);
  assert.deepEqual(found.map((one) => one.map((each) => each.x)), [[0], [2]]);
  assert.deepEqual(stretches([point(0, null), point(1, null)]), []);
});

test("a curve is logarithmic where its medians are far apart, and never with a nought", () => {
  assert.equal(logarithmic(curve([1, 2, 3], [100, 200, 300])), true);
  assert.equal(logarithmic(curve([1, 2, 3])), false);
  assert.equal(logarithmic(curve([0, 2, 300])), false);
  assert.equal(logarithmic(curve([1, null, 300])), true);
});

test("the table of a curve has a row for each value and a column for each line", () => {
  const table = tableOfCurve(curve([1, 2, null], [4, 5, 6]));
  assert.deepEqual(table.columns, ["threads", "policy=0", "policy=1"]);
  assert.deepEqual(table.rows, [["1", "1", "4"], ["2", "2", "5"], ["3", "-", "6"]]);
});
