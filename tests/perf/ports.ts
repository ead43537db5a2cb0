// SPDX-License-Identifier: Apache-2.0
// Cost of PCIe ports: boot time and memory by number, with shared and private memory, and the number of NICs that the
// guest accepts at once.
import { readdirSync, readFileSync } from "node:fs";
import {
  eventually,
  ifaceManifest,
  networkManifest,
  vmManifest,
  type Machine,
} from "@patchbay/support";
import { logLines } from "./component-log.ts";
import { withMachine } from "./standalone-machine.ts";

const WAIT_MS = 120_000;
const KIB_PER_MIB = 1024;

/** One layout of a VM. */
interface Setting {
  readonly ports: number;
  readonly shared: boolean;
}

const SETTINGS: readonly Setting[] = [8, 32, 64, 128].flatMap((ports) => [
  { ports, shared: true },
  { ports, shared: false },
]);

interface Figures {
  /** From libvirt's start to the guest's line. */
  readonly bootMs: number;
  /** QEMU's, including shared memory. */
  readonly residentMiB: number;
  /** NICs that the guest had at once, including the first. */
  readonly nics: number;
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Resident memory of the VM's QEMU. Source: proc(5), status. */
function residentMiBOf(vm: string): number {
  const pid = readdirSync("/proc").find((entry) =>
    readOrEmpty(`/proc/${entry}/cmdline`).includes(`guest=default_${vm},`),
  );
  const match = /VmRSS:\s+(\d+) kB/.exec(readOrEmpty(`/proc/${pid ?? ""}/status`));
  return Number(match?.[1] ?? NaN) / KIB_PER_MIB;
}

/** Plugs as many NICs as the VM reports, and counts those in the guest. */
async function plugAll(machine: Machine, vm: string): Promise<number> {
  const free = machine.findVmi(vm)?.status?.pciePorts?.free ?? 0;
  const base = "/spec/template/spec";
  const operations = Array.from({ length: free }, (_unused, index) => ({
    name: `n${String(index)}`,
    network: "perf",
  })).flatMap((nic) => [
    { op: "add", path: `${base}/networks/-`, value: networkManifest(nic) },
    { op: "add", path: `${base}/domain/devices/interfaces/-`, value: ifaceManifest(nic) },
  ]);
  machine.kubectl("patch", "vm", vm, "--type=json", "-p", JSON.stringify(operations));
  return await eventually(
    async () => {
      const { lines } = await machine.console(vm).run("report");
      const count = lines.filter((line) => line.startsWith("nic ")).length;
      return count === free + 1 ? count : undefined;
    },
    { withinMs: WAIT_MS },
  );
}

async function measureOne(machine: Machine, { ports, shared }: Setting): Promise<Figures> {
  const network = { sharedMemory: shared };
  const patch = JSON.stringify({ spec: { configuration: { network } } });
  machine.kubectl("patch", "kubevirt", "kubevirt", "-n", "patchbay", "--type=merge", "-p", patch);
  const sinceMs = Date.now();
  // A unique name, so that the previous one's leftovers do not matter.
  const vm = `ports-${String(sinceMs)}`;
  machine.apply(vmManifest({ name: vm, pcieRootPorts: ports }));
  try {
    await machine.booted(vm);
    const readyMs = Date.now();
    const start = logLines(machine, "virt-handler", sinceMs).find(
      ({ action }) => action === "startDomain",
    );
    const startedMs = Date.parse(start?.timestamp ?? "") - (start?.durationMs ?? 0);
    const residentMiB = residentMiBOf(vm);
    return { bootMs: readyMs - startedMs, residentMiB, nics: await plugAll(machine, vm) };
  } finally {
    machine.kubectl("delete", "vm", vm, "--wait=true");
    machine.kubectl("wait", "--for=delete", `vmi/${vm}`, "--timeout=60s");
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

function printRow(...cells: readonly string[]): void {
  process.stdout.write(`${cells.map((cell) => cell.padStart(14)).join("")}\n`);
}

export async function measurePorts(rounds: number): Promise<void> {
  await withMachine(async (machine) => {
    const measured = new Map<Setting, Figures[]>(SETTINGS.map((setting) => [setting, []]));
    for (let round = 1; round <= rounds; round += 1) {
      for (const [setting, figures] of measured) {
        const memory = setting.shared ? "shared" : "private";
        process.stderr.write(`round ${String(round)}: ${String(setting.ports)} ports, ${memory}\n`);
        figures.push(await measureOne(machine, setting));
      }
    }
    printRow("ports", "memory", "boot, s", "resident, MiB", "NICs at once");
    for (const [{ ports, shared }, figures] of measured) {
      printRow(
        String(ports),
        shared ? "shared" : "private",
        (median(figures.map(({ bootMs }) => bootMs)) / 1000).toFixed(1),
        median(figures.map(({ residentMiB }) => residentMiB)).toFixed(0),
        String(Math.min(...figures.map(({ nics }) => nics))),
      );
    }
  });
}
