// SPDX-License-Identifier: Apache-2.0
// Benchmarks of the embedded API server: throughput beside kube-apiserver's, memory, and starts.
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { type Figure, measureFigures } from "./figures.ts";
import { type Footprint, measureFootprint } from "./memory.ts";
import { ServerProcess } from "./process.ts";

const NAME_WIDTH = 46;
const OURS_WIDTH = 78;

function print(...lines: readonly string[]): void {
  process.stdout.write(`${lines.join("\n")}\n`);
}

function printFigures(figures: readonly Figure[]): void {
  print("", "figure".padEnd(NAME_WIDTH) + "embedded server".padEnd(OURS_WIDTH) + "kube-apiserver");
  for (const { name, ours, real } of figures) {
    print(name.padEnd(NAME_WIDTH) + ours.padEnd(OURS_WIDTH) + real);
  }
}

function printFootprint(footprint: Footprint): void {
  const { vms, emptyMb, filledMb, restartedMb, readyMs, bytesPerObject } = footprint;
  print(
    "",
    `${String(vms)} VMIs and ${String(vms)} launcher pods`,
    `  resident memory: empty ${emptyMb.toFixed(0)} MB, filled ${filledMb.toFixed(0)} MB, started again ${restartedMb.toFixed(0)} MB (${bytesPerObject.toFixed(0)} bytes an object)`,
    `  start until ready: ${readyMs.toFixed(0)} ms`,
  );
}

async function measureStart(dataDir: string): Promise<void> {
  const first = await ServerProcess.start(dataDir);
  await first.stop();
  const second = await ServerProcess.start(dataDir);
  print(
    `start until ready: ${first.readyMs.toFixed(0)} ms with certificates to make, ${second.readyMs.toFixed(0)} ms without; empty, ${second.rssMb().toFixed(0)} MB resident`,
  );
  await second.stop();
}

/** Measures servers in their own data directories; `sections` selects parts. */
export async function measureApiServer(sections: readonly string[]): Promise<void> {
  const base = mkdtempSync(join(tmpdir(), "patchbay-perf-"));
  const wants = (section: string) => sections.length === 0 || sections.includes(section);
  try {
    print(
      `writes are durable before they are answered (SQLite, WAL, synchronous=FULL); load average before: ${(loadavg()[0] ?? NaN).toFixed(1)}`,
    );
    await measureStart(join(base, "start"));
    if (wants("figures")) {
      const server = await ServerProcess.start(join(base, "figures"));
      printFigures(await measureFigures(server));
      await server.stop();
    }
    for (const vms of wants("memory") ? [1100, 10_000, 25_000] : []) {
      printFootprint(await measureFootprint(join(base, String(vms)), vms));
    }
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}
