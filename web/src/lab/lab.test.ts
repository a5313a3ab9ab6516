import assert from "node:assert/strict";
import { test } from "node:test";
import { withRoom } from "./chart.ts";
import { barsOf } from "./course.ts";
import { binsOf, spanOf } from "./histogram.ts";

test("words of an axis that would lie on each other are left out", () => {
  const words = ["1/s", "10/s", "100/s", "1,000/s", "10,000/s"];
  assert.deepEqual(withRoom(words.map((word, place) => [place * 100, word])), [true, true, true, true, true]);
  assert.deepEqual(withRoom(words.map((word, place) => [place * 30, word])), [true, true, false, true, false]);
  assert.deepEqual(withRoom(words.map((word) => [0, word])), [true, false, false, false, false]);
  assert.deepEqual(withRoom(words.map((word, place) => [400 - place * 100, word])), [true, true, true, true, true]);
});

test("the stretches of a launch fill their drawing, each as high as its busy cores", () => {
  const bars = barsOf(
    [
      { phase: "set-up", until_s: 0.5, cores: 0.25 },
      { phase: "warm-up", until_s: 0.52, cores: null },
      { phase: "timed", until_s: 2, cores: 4.1 },
    ],
    4,
  );
  assert.deepEqual(bars.map((bar) => [bar.from, bar.to, bar.high]), [
    [0, 0.25, 0.0625],
    [0.25, 0.26, null],
    [0.26, 1, 1],
  ]);
  assert.equal(bars[0]!.words, "set-up, 0 s to 500 ms: 0.25 of 4 cores busy");
  assert.equal(bars[1]!.words, "warm-up, 500 ms to 520 ms: too short to tell");
  assert.equal(bars[2]!.words, "timed, 520 ms to 2 s: 4.1 of 4 cores busy");
  assert.deepEqual(barsOf([], 4), []);
});

test("a histogram's bins hold all samples, and one that was held up leaves room for the others", () => {
  const samples = [...Array.from({ length: 99 }, (_, place) => 1 + place / 100), 50];
  const span = spanOf(samples);
  assert.deepEqual(span, [1, 1.97]);
  const bins = binsOf(samples, span, 10);
  assert.equal(bins.reduce((sum, one) => sum + one, 0), 100);
  assert.ok(bins.every((one) => one >= 9));
  assert.deepEqual(binsOf([3, 3, 3], spanOf([3, 3, 3]), 4), [0, 0, 3, 0]);
  assert.deepEqual(spanOf([]), [0, 1]);
});
