// SPDX-License-Identifier: Apache-2.0
// What a soak looks at: pings that do not end, and what each process holds.
import { readdirSync, readFileSync } from "node:fs";
import { evaluateIn } from "../../faults/inspector.ts";
import { eventually } from "@patchbay/support";
import { expect } from "vitest";
import { childrenOf } from "../inventory.ts";
import { CHANGE_MS, machine } from "../machine.ts";

/** Pings of one go, and the time between two of them, milliseconds. */
const GO = { count: 300, intervalMs: 10 };

/** Pings of a guest, and answers that it got, since it booted. */
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
 * Pings that go on until they are stopped. The guest's kernel counts them: ping itself leaves a second after its last
 * packet, and counts an answer that a busy machine brings later as lost.
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

  /** How many were sent, when all of them are answered. */
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
    // Asked for once: it takes kubectl, for which everything here stands still, and so does a process whose inspector waits
    // for its client to go.
    const console = machine.console(this.#vm);
    const { count, intervalMs } = GO;
    const command = `ping ${ip} ${String(count)} ${String(intervalMs)}`;
    while (!this.#isOver) {
      await console.run(command, { timeoutMs: count * intervalMs + CHANGE_MS });
    }
  }
}

/** What a process holds. */
export interface Held {
  /** After garbage was collected, bytes. */
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
  // Last: the inspector has a thread and files of its own, which stay for a moment.
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

/** What each service of the machine holds, by name. */
export async function heldByServices(): Promise<ReadonlyMap<string, Held>> {
  const held = new Map<string, Held>();
  // One after the other: they have one port for it.
  for (const name of SERVICES) held.set(name, await heldBy(machine.pidOf(name)));
  return held;
}

/** How long a service keeps a connection to the API server that rests, milliseconds: keepAliveTimeout of the API server. */
const RESTING_CONNECTION_MS = 120_000;
/** Files that a service may have more of than before: connections to the API server come and go. */
const MORE_FILES_MAX = 5;

/**
 * Passes once no service has more files than before. A busy moment takes more connections to the API server, which end
 * after they have rested; what is never closed stays.
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

/** Processor time that the services and those of their children that have ended took, milliseconds: proc(5), stat. */
export function processorMsOfServices(): number {
  const claimed = SERVICES.map((name) => {
    const stat = readFileSync(`/proc/${String(machine.pidOf(name))}/stat`, "utf8");
    // Behind the name, which may have blanks: utime, stime, cutime and cstime are fields 14 to 17, state is the third.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
  });
  return claimed.reduce((sum, ticks) => sum + ticks, 0) * TICK_MS;
}
