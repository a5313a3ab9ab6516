/** Tables of the report, with the same cells as on the terminal. */

import type { Table } from "../schema.ts";
import { h, save } from "./dom.ts";

/** Return a table that scrolls by itself if it is wider than the page, also with the keyboard. */
export function scrolled(label: string, table: HTMLTableElement, kind = ""): HTMLElement {
  return h("div", { class: `wide ${kind}`.trim(), tabindex: 0, role: "region", "aria-label": label }, table);
}

/** Return the head of a table. */
export function headOf(columns: readonly string[]): HTMLElement {
  return h("thead", {}, h("tr", {}, ...columns.map((column) => h("th", { scope: "col" }, column))));
}

/** Return a table with its caption and notes; figures are as on the terminal. */
export function tableOf(table: Table): HTMLElement {
  const [caption = "", ...notes] = table.caption.split("\n");
  const heads = Math.max(table.names, 1);
  const body = table.rows.map((row) =>
    h(
      "tr",
      {},
      ...row.map((cell, place) => (place < heads ? h("th", { scope: "row" }, cell) : h("td", {}, cell))),
    ),
  );
  return h(
    "figure",
    { class: "table" },
    scrolled(caption, h("table", {}, headOf(table.columns), h("tbody", {}, ...body))),
    h(
      "figcaption",
      {},
      caption,
      ...notes.map((note) => h("div", {}, note)),
      " ",
      h("button", { type: "button", class: "quiet", click: () => save(`${fileName(caption)}.csv`, "text/csv", [csv(table)]) }, "CSV"),
    ),
  );
}

/** Return a file name made from words. */
function fileName(words: string): string {
  return words.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40) || "table";
}

/** Return a table as comma-separated values: the columns' names, then the rows. */
export function csv(table: Pick<Table, "columns" | "rows">): string {
  return [table.columns, ...table.rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

/** Return a field, quoted if necessary. A field that a spreadsheet would run as a formula is made plain text. */
export function quoted(field: string): string {
  const safe = /^[=+\-@\t\r]/.test(field) && Number.isNaN(Number(field)) && field !== "-" ? `'${field}` : field;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
