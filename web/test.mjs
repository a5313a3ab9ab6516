// Bundles each src/**/*.test.ts and runs them with Node's own test runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const tests = [];
const walk = (folder) => {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) walk(path);
    else if (name.endsWith(".test.ts")) tests.push(path);
  }
};
walk(join(here, "src"));
const out = mkdtempSync(join(tmpdir(), "headway-web-"));
try {
  await build({
    absWorkingDir: here,
    entryPoints: tests,
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    sourcemap: "inline",
    logLevel: "warning",
  });
  const files = readdirSync(out, { recursive: true }).filter((name) => name.endsWith(".test.mjs"));
  if (files.length !== tests.length) throw new Error(`${files.length} of ${tests.length} tests were built`);
  const ran = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files.map((name) => join(out, name))], {
    stdio: "inherit",
  });
  process.exitCode = ran.status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
