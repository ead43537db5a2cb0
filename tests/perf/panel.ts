// SPDX-License-Identifier: Apache-2.0
// Time until the panel shows 500 VMs with 2,000 NICs, and time for a change of one of them.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { FakeCluster } from "../browser/fake-cluster.ts";
import { NETWORKS, vmiOf, vmOf, type VmOf } from "../browser/objects.ts";
import { openBrowser, openFake, type OpenPanel } from "../browser/panel-page.ts";

const NICS = 4;
const CHANGES = 100;
const NAMES = NETWORKS.map(({ metadata }) => metadata.name);

function vmAt(index: number, phase = "Ready"): VmOf {
  const nics = Array.from({ length: NICS }, (_, at) =>
    at === 0
      ? { name: "default" }
      : { name: `nic-${String(at)}`, network: NAMES[(index + at) % NAMES.length] ?? "", phase },
  );
  return { name: `vm-${String(index).padStart(4, "0")}`, nics, free: 32 - NICS };
}

/** From the page's start until the rack is painted, milliseconds of the browser's clock. */
async function firstPaint({ page }: OpenPanel): Promise<number> {
  await page.waitForSelector(".plug");
  return page.evaluate<number>(
    "new Promise((told) => requestAnimationFrame(() => setTimeout(() => told(performance.now()))))",
  );
}

/** Measures the time from each update to its painted frame. */
const NOTE = `
  window.updates = [];
  new MutationObserver(() => {
    const [mark] = performance.getEntriesByName("panel-update").slice(-1);
    requestAnimationFrame(() => setTimeout(() => {
      window.updates.push(performance.now() - mark.startTime);
    }));
  }).observe(document.querySelector(".units"), { subtree: true, childList: true, characterData: true });
`;

async function changes({ page }: OpenPanel, cluster: FakeCluster): Promise<readonly number[]> {
  await page.evaluate(NOTE);
  for (let round = 0; round < CHANGES; round += 1) {
    const phase = round % 2 === 0 ? "Attaching" : "Ready";
    const text = round % 2 === 0 ? "plugging into the guest" : "in use";
    cluster.put("virtualmachineinstances", vmiOf(vmAt(0, phase)));
    await page.locator(".unit").first().locator(".plug").nth(1).getByText(text).waitFor();
  }
  return page.evaluate<readonly number[]>("window.updates");
}

async function measureOne(count: number): Promise<readonly string[]> {
  const cluster = await FakeCluster.start();
  for (const network of NETWORKS) cluster.put("network-attachment-definitions", network);
  for (let index = 0; index < count; index += 1) {
    cluster.put("virtualmachines", vmOf(vmAt(index)));
    cluster.put("virtualmachineinstances", vmiOf(vmAt(index)));
  }
  const browser = await openBrowser();
  try {
    await using panel = await openFake(cluster, browser);
    const paintMs = await firstPaint(panel);
    const times = await changes(panel, cluster);
    const [median, high] = [percentile(times, 50), percentile(times, 95)];
    const memory = await panel.page.evaluate<number>("performance.memory.usedJSHeapSize / 2 ** 20");
    return [
      String(count),
      String(count * NICS),
      paintMs.toFixed(0),
      median.toFixed(1),
      high.toFixed(1),
      memory.toFixed(0),
    ];
  } finally {
    await browser.close();
    await cluster.stop();
  }
}

function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor((part / 100) * sorted.length)] ?? Number.NaN;
}

const COLUMNS = ["VMs", "NICs", "first paint", "update, median", "p95", "memory, MiB"];

function printRow(cells: readonly string[]): void {
  process.stdout.write(`${cells.map((cell) => cell.padStart(16)).join("")}\n`);
}

/** Prints a row for each count of VMs; times in milliseconds. */
export async function measurePanel(counts: readonly number[]): Promise<void> {
  execFileSync(process.execPath, [join(import.meta.dirname, "../../hack/panel/main.ts")]);
  printRow(COLUMNS);
  for (const count of counts) printRow(await measureOne(count));
}
