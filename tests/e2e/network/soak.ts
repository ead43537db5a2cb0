// SPDX-License-Identifier: Apache-2.0
// The soak's observations: each process's resources.
import { readdirSync, readFileSync } from "node:fs";
import { evaluateIn } from "../../faults/inspector.ts";
import { eventually } from "@patchbay/support";
import { expect } from "vitest";
import { childrenOf } from "../inventory.ts";
import { machine } from "../machine.ts";

/** A process's resources. */
export interface Held {
  /** After garbage collection, bytes. */
  readonly heap: number;
  readonly descriptors: number;
  readonly threads: number;
  readonly children: number;
}

function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${String(pid)}/fd`).length;
}

async function heldBy(pid: number): Promise<Held> {
  const status = readFileSync(`/proc/${String(pid)}/status`, "utf8");
  const descriptors = descriptorsOf(pid);
  const threads = Number(/^Threads:\s*(\d+)/m.exec(status)?.[1] ?? "0");
  const children = childrenOf(pid).length;
  // Last, because the inspector's thread and files stay for a moment.
  const heap = Number(await evaluateIn(pid, "process.memoryUsage().heapUsed"));
  return { heap, descriptors, threads, children };
}

const SERVICES = [
  "apiserver",
  "virt-api",
  "virt-controller",
  "net-agent",
  "virt-handler",
  "node-runtime",
];

/** Resources of each service of the machine, by name. */
export async function heldByServices(): Promise<ReadonlyMap<string, Held>> {
  const held = new Map<string, Held>();
  // Sequential, because they share one inspector port.
  for (const name of SERVICES) held.set(name, await heldBy(machine.pidOf(name)));
  return held;
}

/** Idle timeout of a service's connection to the API server, milliseconds: keepAliveTimeout of the API server. */
const RESTING_CONNECTION_MS = 120_000;
/** Allowed growth of a service's open files: connections to the API server vary. */
const MORE_FILES_MAX = 5;

/**
 * Passes once no service has more files than before. Busy moments open more connections to the API server, which close
 * when idle; leaked files stay.
 */
export async function noMoreFilesThan(before: ReadonlyMap<string, Held>): Promise<void> {
  await eventually(
    () => {
      for (const [name, { descriptors }] of before) {
        const more = descriptorsOf(machine.pidOf(name)) - descriptors;
        expect(more, `files of ${name}`).toBeLessThan(MORE_FILES_MAX);
      }
      return true;
    },
    { withinMs: RESTING_CONNECTION_MS },
  );
}

/** A clock tick of /proc, milliseconds: USER_HZ is 100 on Linux (proc(5)). */
const TICK_MS = 10;

/** Processor time of the services and their ended children, milliseconds: proc(5), stat. */
export function processorMsOfServices(): number {
  const claimed = SERVICES.map((name) => {
    const stat = readFileSync(`/proc/${String(machine.pidOf(name))}/stat`, "utf8");
    // After the name, which may contain blanks: utime, stime, cutime and cstime are fields 14 to 17, state is the
    // third.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
  });
  return claimed.reduce((sum, ticks) => sum + ticks, 0) * TICK_MS;
}
