// SPDX-License-Identifier: Apache-2.0
// The control plane's cost with few, many and very many VMs: one table, with a column for each number.
import { loadavg } from "node:os";
import { measure, type Row } from "./measure.ts";
import { withStage } from "./stage.ts";

const GAP = 2;

async function column(vms: number): Promise<readonly Row[]> {
  const rows: Row[] = [["load average before", (loadavg()[0] ?? NaN).toFixed(1)]];
  await withStage(async (stage) => {
    rows.push(["server", stage.server.name], ...(await measure(stage, vms)));
  });
  return rows;
}

function printTable(head: Row[], columns: readonly (readonly Row[])[]): void {
  const names = head.map(([name]) => name);
  const cells = names.map((name) => [
    name,
    ...columns.map((rows) => rows.find(([other]) => other === name)?.[1] ?? ""),
  ]);
  const widths = [0, ...columns.map((_, index) => index + 1)].map((index) =>
    Math.max(...cells.map((row) => row[index]?.length ?? 0)),
  );
  for (const row of cells) {
    const text = row.map((cell, index) => cell.padEnd((widths[index] ?? 0) + GAP)).join("");
    process.stdout.write(`${text.trimEnd()}\n`);
  }
}

export async function measureControlPlane(counts: readonly number[]): Promise<void> {
  const columns: (readonly Row[])[] = [];
  for (const vms of counts) {
    process.stderr.write(`${String(vms)} VMs\n`);
    columns.push([["VMs", String(vms)], ...(await column(vms))]);
  }
  printTable([...(columns[0] ?? [])], columns);
}
