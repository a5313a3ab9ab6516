/** Decodes a block of columns; see `Column` in src/headway/report/html/schema.py. */

import type { Column } from "../schema.ts";

export type Columns = ReadonlyMap<string, Float64Array>;

/** Return the bytes of a base64 text. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const modern = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (modern) return modern.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place += 1) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

/** Return the bytes before compression with deflate. */
export async function inflated(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Return the columns of a block by name. Throws if the block's length is not that of the columns. */
export function columnsOf(block: Uint8Array, columns: readonly Column[]): Columns {
  const found = new Map<string, Float64Array>();
  let at = 0;
  for (const { name, rows, width } of columns) {
    const values = new Float64Array(rows);
    let weight = 1;
    for (let plane = 0; plane < width; plane += 1) {
      for (let row = 0; row < rows; row += 1) values[row]! += block[at + row]! * weight;
      at += rows;
      weight *= 256;
    }
    found.set(name, values);
  }
  if (at !== block.length) throw new Error(`a block has ${block.length} bytes, its columns ${at}`);
  return found;
}
