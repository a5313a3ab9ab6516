// Bundles the page into the Python package: `node build.mjs`; with --check it writes nothing and fails where the
// committed bundle is another, or too big.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const MOST_BYTES = 150_000;
const assets = new URL("../src/headway/report/html/assets/", import.meta.url);
const here = fileURLToPath(new URL(".", import.meta.url));

const made = await build({
  absWorkingDir: here,
  entryPoints: { "report.js": "src/main.ts", "report.css": "src/page.css" },
  entryNames: "[name]",
  outdir: "unused",
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  legalComments: "none",
  write: false,
});
let bytes = 0;
let differ = false;
for (const file of made.outputFiles) {
  const name = file.path.endsWith(".css") ? "report.css" : "report.js";
  // Inside a script element nothing may look like its end.
  const text = file.text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  bytes += Buffer.byteLength(text);
  const target = new URL(name, assets);
  if (!process.argv.includes("--check")) {
    writeFileSync(target, text);
  } else if (readFileSync(target, "utf8") !== text) {
    differ = true;
    console.error(`${name} is not what its sources make: run \`make web\` and commit it`);
  }
}
console.error(`the page is ${bytes.toLocaleString("en")} bytes`);
if (bytes > MOST_BYTES) console.error(`that is more than ${MOST_BYTES.toLocaleString("en")}`);
process.exit(differ || bytes > MOST_BYTES ? 1 : 0);
