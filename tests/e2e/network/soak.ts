// SPDX-License-Identifier: Apache-2.0
// The soak's observations: endless pings, and each process's resources.
import { readdirSync, readFileSync } from "node:fs";
import { evaluateIn } from "../../faults/inspector.ts";
import { eventually } from "@patchbay/support";
import { expect } from "vitest";
import { childrenOf } from "../inventory.ts";
import { CHANGE_MS, machine } from "../machine.ts";

/** Pings per run, and the interval, milliseconds. */
const GO = { count: 300, intervalMs: 10 };

/** Pings that a guest sent and replies that it received since boot. */
interface Echoes {
  readonly sent: number;
  readonly received: number;
}

async function echoesOf(vm: string): Promise<Echoes> {
  const { lines } = await machine.console(vm).run("echoes");
  const match = /sent (\d+) received (\d+)/.exec(lines.join("\n"));
  return { sent: Number(match?.[1] ?? "0"), received: Number(match?.[2] ?? "0") };
}

/**
 * Pings until they are stopped. The guest's kernel counts them, because ping itself ends a second after its last packet
 * and counts late replies as lost.
 */
export class Pings {
  #isOver = false;
  readonly #vm: string;
  readonly #before: Echoes;
  readonly #ended: Promise<void>;

  private constructor(
    vm: string,
    { ip, before }: { readonly ip: string; readonly before: Echoes },
  ) {
    this.#vm = vm;
    this.#before = before;
    this.#ended = this.#run(ip);
  }

  static async start(vm: string, ip: string): Promise<Pings> {
    return new Pings(vm, { ip, before: await echoesOf(vm) });
  }

  /** The number sent, if all are answered. */
  async stop(): Promise<number> {
    this.#isOver = true;
    await this.#ended;
    return eventually(
      async () => {
        const { sent, received } = await echoesOf(this.#vm);
        const isAnswered = sent - this.#before.sent === received - this.#before.received;
        return isAnswered ? sent - this.#before.sent : undefined;
      },
      { withinMs: CHANGE_MS },
    );
  }

  async #run(ip: string): Promise<void> {
    // Requested once, because kubectl blocks this process, and an inspected process waits for its client to leave.
    const console = machine.console(this.#vm);
    const { count, intervalMs } = GO;
    const command = `ping ${ip} ${String(count)} ${String(intervalMs)}`;
    while (!this.#isOver) {
      await console.run(command, { timeoutMs: count * intervalMs + CHANGE_MS });
    }
  }
}

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
