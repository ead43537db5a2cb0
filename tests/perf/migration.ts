// SPDX-License-Identifier: Apache-2.0
// A migration's duration, downtime and traffic by the guest's memory and load.
import { join } from "node:path";
import { eventually, RunningGuests, SecondNode, vmManifest, type Machine } from "@patchbay/support";
import { withMachine } from "./standalone-machine.ts";

const ROOT = join(import.meta.dirname, "../..");
const GIB = 1024;
const SIZES = [128, GIB, 4 * GIB];
/** Memory that a busy guest rewrites continuously, MiB. */
const DIRTY_MIB = 32;
const MOVES = 2;
const BOOT_MS = 600_000;
const MOVE_MS = 1_800_000;
const MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancemigrations";

interface Moved {
  /** From the first byte to the running guest on its target, milliseconds. */
  readonly tookMs: number;
  /** Total downtime, milliseconds. */
  readonly offMs: number;
  /** libvirt's downtime on the target: from the stop at the source to the complete transfer, milliseconds. */
  readonly downtime: string;
  /** The same. */
  readonly processed: string;
  readonly iterations: string;
}

interface Status {
  readonly phase?: string;
  readonly migrationState?: {
    readonly startTimestamp?: string;
    readonly targetNodeDomainReadyTimestamp?: string;
    readonly failureReason?: string;
  };
}

function statusOf(machine: Machine, name: string): Status {
  const found = machine.read(`${MIGRATIONS}/${name}`) as { readonly status?: Status } | undefined;
  return found?.status ?? {};
}

function msOf(time = ""): number {
  return Number(new Date(time));
}

function valueOf(lines: readonly string[], key: string): string {
  const line = lines.find((each) => each.startsWith(`${key}:`)) ?? "";
  return line.slice(key.length + 1).trim();
}

async function moveOnce(machine: Machine, vm: string, running: RunningGuests): Promise<Moved> {
  const name = `${vm}-${String(Date.now())}`;
  running.takeLongestOff();
  machine.apply({
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstanceMigration",
    metadata: { name, namespace: "default" },
    spec: { vmiName: vm },
  });
  const isOver = (): boolean =>
    ["Succeeded", "Failed"].includes(statusOf(machine, name).phase ?? "");
  await eventually(isOver, { withinMs: MOVE_MS });
  const { phase, migrationState = {} } = statusOf(machine, name);
  if (phase !== "Succeeded") throw new Error(migrationState.failureReason ?? "it failed");
  const reported = await running.arrival();
  const { startTimestamp, targetNodeDomainReadyTimestamp } = migrationState;
  return {
    tookMs: msOf(targetNodeDomainReadyTimestamp) - msOf(startTimestamp),
    offMs: running.takeLongestOff(),
    downtime: String(Number.parseInt(valueOf(reported, "Total downtime"), 10)),
    processed: valueOf(reported, "Data processed"),
    iterations: valueOf(reported, "Iteration"),
  };
}

function print(label: string, { tookMs, offMs, downtime, processed, iterations }: Moved): void {
  const cells = [tookMs.toFixed(0), offMs.toFixed(0), downtime, processed, iterations];
  process.stdout.write(`${label.padEnd(24)}${cells.map((cell) => cell.padStart(14)).join("")}\n`);
}

async function measure(machine: Machine, node: SecondNode, mib: number): Promise<void> {
  const vm = `move-${String(mib)}`;
  machine.apply(
    vmManifest({
      name: vm,
      memory: `${String(mib)}Mi`,
      nics: [{ name: "default", binding: "masquerade" }],
    }),
  );
  const nodes = [machine.dataDir, node.dataDir];
  const pods = (): readonly string[] => Object.keys(machine.findVmi(vm)?.status?.activePods ?? {});
  let running: RunningGuests | undefined;
  try {
    await machine.booted(vm, undefined, BOOT_MS);
    running = new RunningGuests({ domain: `default_${vm}`, nodes, pods });
    for (const load of ["idle", "writing"]) {
      if (load === "writing") {
        const options = { timeoutMs: MOVE_MS };
        // It never answers.
        void machine
          .console(vm)
          .run(`dirty ${String(DIRTY_MIB)}`, options)
          .catch(() => undefined);
      }
      for (let move = 0; move < MOVES; move += 1) {
        print(`${String(mib)} MiB, ${load}`, await moveOnce(machine, vm, running));
      }
    }
  } finally {
    await running?.close();
    machine.kubectl("delete", "vm", vm, "--wait=true");
    machine.kubectl("wait", "--for=delete", `vmi/${vm}`, "--timeout=120s");
  }
}

/**
 * Prints a row for each migration and guest size. A writing guest never answers its command, which does not keep the
 * process alive.
 */
export async function measureMigrations(sizes: readonly number[] = SIZES): Promise<void> {
  await withMachine(async (machine) => {
    const guestImage = join(ROOT, ".cache/guest");
    const node = await SecondNode.start(machine, { name: "node-2", guestImage });
    try {
      const names = ["took, ms", "off, ms", "libvirt's, ms", "went over", "iterations"];
      process.stdout.write(`${"".padEnd(24)}${names.map((each) => each.padStart(14)).join("")}\n`);
      for (const mib of sizes) await measure(machine, node, mib);
    } finally {
      await node.end();
    }
  });
}
