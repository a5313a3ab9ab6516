/** Reads the data of the page that contains this script, and shows the page. */

import { h } from "./lib/dom.ts";
import { labPage } from "./lab/page.ts";
import type { Page } from "./schema.ts";
import { simulationPage } from "./simulation/page.ts";
import { tracePage } from "./trace/page.ts";

async function start(): Promise<void> {
  const root = document.getElementById("page")!;
  try {
    const page = JSON.parse(document.getElementById("data")!.textContent!) as Page;
    if (page.kind === "lab") labPage(page, root);
    else if (page.kind === "simulation") await simulationPage(page, root);
    else await tracePage(page, root);
  } catch (error) {
    root.append(h("p", { class: "warning" }, `This report cannot be shown: ${String(error)}`));
    throw error;
  }
}

void start().finally(() => document.documentElement.setAttribute("data-ready", ""));
