import assert from "node:assert/strict";
import { deflateSync } from "node:zlib";
import { test } from "node:test";
import { bytesOf, columnsOf, inflated } from "./columns.ts";
import { amount, digits, duration, instant, position } from "./format.ts";
import { niceTicks, scaleOf, spreads } from "./scale.ts";
import { csv, quoted } from "./table.ts";

test("figures read as the terminal's do", () => {
  assert.equal(duration(12_345_678), "12.3 ms");
  assert.equal(duration(999.6), "1 us");
  assert.equal(duration(0), "0 ns");
  assert.equal(duration(999.4e9), "999 s");
  assert.equal(duration(999.6e9), "1,000 s");
  assert.equal(duration(1234e9), "1,234 s");
  assert.equal(duration(12_345.678e9), "12,346 s");
  assert.equal(amount(0.0123, "s"), "12.3 ms");
  assert.equal(amount(38_612, "per_s"), "38,600/s");
  assert.equal(amount(1_048_576, "bytes"), "1 MiB");
  assert.equal(amount(999_900, "bytes_per_s"), "1 MB/s");
  assert.equal(amount(0.2347, "share"), "23.5 %");
  assert.equal(amount(1024, "count"), "1,024");
  assert.equal(amount(80_711.6, "count"), "80,712");
  assert.equal(amount(12.345, "count"), "12.3");
  assert.equal(digits(0), "0");
});

test("an instant has as many decimals as tell it from the next", () => {
  assert.equal(instant(1_500_000_000, 100_000_000), "1.5 s");
  assert.equal(instant(1_500_000_100, 100), "1.5000001 s");
  assert.equal(instant(780_000_000, 10_000_000), "780 ms");
});

test("a position has three digits, and as many more as tell short things apart", () => {
  assert.equal(position(1_400_000_000, 3e9), "1.40 s");
  assert.equal(position(1_234_567_891, 5_000_000), "1.235 s");
  assert.equal(position(12_345_678_900_000, 400_000), "12,345.6789 s");
  assert.equal(position(12_345_678_900_000, 0), "12,345.678900000 s");
  assert.equal(position(0, 0), "0 ns");
});

test("ticks are round, in order and within", () => {
  for (const [low, high] of [[0, 1], [3, 977], [1e-9, 5e-9], [123_456_789, 123_456_999]] as const) {
    const ticks = niceTicks(low, high, 6);
    assert.ok(ticks.length >= 2 && ticks.length <= 13, String(ticks));
    assert.deepEqual([...ticks].sort((a, b) => a - b), ticks);
    assert.ok(ticks.every((tick) => tick >= low - 1e-12 && tick <= high + high * 1e-9));
  }
});

test("ticks of a short stretch after many hours are distinct", () => {
  const [low, high] = [1.08e14 + 123, 1.08e14 + 823];
  const ticks = niceTicks(low, high, 7);
  assert.deepEqual(ticks, [200, 300, 400, 500, 600, 700, 800].map((ns) => 1.08e14 + ns));
});

test("a scale keeps the order of values, and is logarithmic where they spread", () => {
  const values = [1, 10, 1000];
  assert.ok(spreads(values));
  const scale = scaleOf(values, 0, 100);
  assert.ok(scale.log);
  assert.ok(scale(1) < scale(10) && scale(10) < scale(1000));
  assert.ok(Math.abs(scale(10) - scale(1) - (scale(1000) - scale(10)) / 2) < 1e-9);
  const linear = scaleOf([4, 5], 100, 0);
  assert.equal(linear(0), 100);
  assert.ok(!spreads([0, 5]) && !spreads([]));
});

test("columns come out of a block as they went in", async () => {
  const rows = [0, 1, 255, 256, 4_000_000_000, 2 ** 40 + 7];
  const planes: number[] = [];
  for (let plane = 0n; plane < 8n; plane += 1n) for (const value of rows) planes.push(Number((BigInt(value) >> (8n * plane)) & 255n));
  const text = deflateSync(Uint8Array.from([...planes, 9, 8])).toString("base64");
  const columns = columnsOf(await inflated(bytesOf(text)), [
    { name: "wide", rows: rows.length, width: 8 },
    { name: "narrow", rows: 2, width: 1 },
  ]);
  assert.deepEqual([...columns.get("wide")!], rows);
  assert.deepEqual([...columns.get("narrow")!], [9, 8]);
  assert.throws(() => columnsOf(Uint8Array.from([1]), []), /1 bytes, its columns 0/);
});

test("a table is saved as fields that no sheet takes for formulas", () => {
  assert.equal(quoted('a "b", c'), '"a ""b"", c"');
  assert.equal(quoted("=1+1"), "'=1+1");
  for (const field of ["+1+1", "@x", "-x", "\tx", "\rx"]) assert.equal(quoted(field).replaceAll('"', "")[0], "'", field);
  assert.equal(quoted("-"), "-");
  assert.equal(quoted("-1.5"), "-1.5");
  assert.equal(csv({ columns: ["", "x"], rows: [["a", "1"]] }), ",x\r\na,1\r\n");
});
