// SPDX-License-Identifier: Apache-2.0
// What a soak looks at: pings that do not end, and what each process holds.
import { readdirSync, readFileSync } from "node:fs";
import { evaluateIn } from "../../faults/inspector.ts";
import { childrenOf } from "../inventory.ts";
import { machine, ping } from "../machine.ts";

/** Pings of one go, and the time between two of them, milliseconds. */
const GO = { count: 300, intervalMs: 10 };

/** Pings that go on until they are stopped. */
export class Pings {
  #isOver = false;
  #sent = 0;
  #received = 0;
  readonly #ended: Promise<void>;

  constructor(vm: string, ip: string) {
    this.#ended = this.#run(vm, ip);
  }

  /** Sent and received in all. */
  async stop(): Promise<{ readonly sent: number; readonly received: number }> {
    this.#isOver = true;
    await this.#ended;
    return { sent: this.#sent, received: this.#received };
  }

  async #run(vm: string, ip: string): Promise<void> {
    while (!this.#isOver) {
      const { sent, received } = await ping(vm, ip, GO);
      this.#sent += sent;
      this.#received += received;
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

async function heldBy(pid: number): Promise<Held> {
  const heap = Number(await evaluateIn(pid, "process.memoryUsage().heapUsed"));
  const status = readFileSync(`/proc/${String(pid)}/status`, "utf8");
  return {
    heap,
    descriptors: readdirSync(`/proc/${String(pid)}/fd`).length,
    threads: Number(/^Threads:\s*(\d+)/m.exec(status)?.[1] ?? "0"),
    children: childrenOf(pid).length,
  };
}

/** What each service of the machine holds, and virt-handler's child, by name. */
export async function heldByServices(): Promise<ReadonlyMap<string, Held>> {
  const services = ["apiserver", "virt-api", "virt-controller", "net-agent", "virt-handler"];
  const pids = [...services, "node-runtime"].map((name) => [name, machine.pidOf(name)] as const);
  const held = new Map<string, Held>();
  // One after the other: they have one port for it.
  for (const [name, pid] of pids) held.set(name, await heldBy(pid));
  return held;
}
