// SPDX-License-Identifier: Apache-2.0
// Time for concurrent plugs into many VMs of one node, and the services' idle cost.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Plugger, vmManifest, type Machine } from "@patchbay/support";
import { printTable } from "./report.ts";
import { withMachine } from "./standalone-machine.ts";

const NIC = { name: "bench", network: "perf" };
const SERVICES = [
  "apiserver",
  "virt-api",
  "virt-controller",
  "net-agent",
  "virt-handler",
  "node-runtime",
];
/** Length of the idle phase, milliseconds. */
const REST_MS = 30_000;
/** Time until a plug's coalesced events are written, milliseconds. */
const CALM_MS = 10_000;
/** Concurrent boots: software emulation takes a processor each. */
const BOOTS = 4;
/** Clock ticks per second of process times. Source: proc(5), sysconf(_SC_CLK_TCK). */
const TICKS = 100;

/** Processor time of a process, milliseconds. Source: proc(5), utime and stime of /proc/PID/stat. */
function processorMs(pid: number): number {
  const stat = readFileSync(`/proc/${String(pid)}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS;
}

async function bootUpTo(machine: Machine, names: readonly string[]): Promise<void> {
  for (let first = 0; first < names.length; first += BOOTS) {
    const some = names.slice(first, first + BOOTS);
    machine.apply(...some.map((name) => vmManifest({ name })));
    for (const name of some) await machine.booted(name);
    process.stderr.write(`${String(first + some.length)} of ${String(names.length)} guests run\n`);
  }
}

/** Milliseconds from a common start until each VM has its NIC, and until it is gone again. */
async function changeAll(plugger: Plugger, vms: readonly string[]) {
  const time = (change: (vm: string) => Promise<void>): Promise<readonly number[]> => {
    const startMs = performance.now();
    return Promise.all(vms.map((vm) => change(vm).then(() => performance.now() - startMs)));
  };
  const plugged = await time((vm) => plugger.plug(vm, [NIC]));
  const unplugged = await time((vm) => plugger.unplug(vm, [NIC]));
  return { plugged, unplugged };
}

/** Processor milliseconds of each service in an idle minute. */
async function restOf(machine: Machine) {
  await sleep(CALM_MS);
  const pids = SERVICES.map((name) => machine.pidOf(name));
  const before = pids.map(processorMs);
  await sleep(REST_MS);
  return pids.map((pid, index) => ({
    label: `${SERVICES[index] ?? ""}, processor ms in a minute`,
    values: [((processorMs(pid) - (before[index] ?? 0)) * 60_000) / REST_MS],
  }));
}

async function measureCount(machine: Machine, plugger: Plugger, count: number): Promise<void> {
  const vms = Array.from({ length: count }, (_, index) => `vm${String(index)}`);
  await bootUpTo(
    machine,
    vms.filter((name) => machine.findVm(name) === undefined),
  );
  const rest = await restOf(machine);
  const { plugged, unplugged } = await changeAll(plugger, vms);
  printTable(`${String(count)} VMs at once, milliseconds`, [
    { label: "plugged: request to status Ready", values: plugged },
    { label: "unplugged: request to nothing left", values: unplugged },
    ...rest,
  ]);
}

export async function measureParallel(counts: readonly number[]): Promise<void> {
  await withMachine(async (machine) => {
    const plugger = await Plugger.open(machine);
    try {
      for (const count of counts.toSorted((left, right) => left - right)) {
        await measureCount(machine, plugger, count);
      }
    } finally {
      await plugger.close();
    }
  });
}
