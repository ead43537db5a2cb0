// SPDX-License-Identifier: Apache-2.0
// One service as users run it, in its own process: start time, memory, processor time and requests.
import { findFreePort } from "@patchbay/support";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

const PACKAGES = join(import.meta.dirname, "../../../packages/control-plane");
/** Length of a tick of processor time, milliseconds. Source: sysconf(_SC_CLK_TCK), 100 on Linux. */
const TICK_MS = 10;
/** Limit of a process's start, milliseconds. */
const START_MS = 60_000;

/** Counts by labels as one text: `patch pods`. */
export type Counts = ReadonlyMap<string, number>;

export function residentMb(pid: number): number {
  const status = readFileSync(`/proc/${String(pid)}/status`, "utf8");
  return (Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024) / 1e6;
}

export function processorMs(pid: number): number {
  const stat = readFileSync(`/proc/${String(pid)}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Samples of one metric in Prometheus' text format, keyed by the values of their labels. */
function samplesOf(text: string, metric: string): Counts {
  const samples = [...text.matchAll(new RegExp(`^${metric}\\{([^}]*)\\} (\\S+)$`, "gm"))];
  return new Map(
    samples.map(([, labels = "", value]) => {
      const words = [...labels.matchAll(/="([^"]*)"/g)].map(([, word = ""]) => word);
      return [words.join(" "), Number(value)];
    }),
  );
}

/** Waits for a process's first line. */
export async function untilReady(stdout: Readable, child: ChildProcess): Promise<void> {
  const late = AbortSignal.timeout(START_MS);
  try {
    await Promise.race([
      once(createInterface(stdout), "line", { signal: late }),
      once(child, "exit", { signal: late }).then(() => Promise.reject(new Error("it has ended"))),
    ]);
  } catch (cause) {
    child.kill("SIGKILL");
    throw new Error(`${child.spawnfile} does not start`, { cause });
  }
}

/** A running service. */
export class Service {
  readonly name: string;
  readonly pid: number;
  /** From the start of the process to its line `ready`, milliseconds. */
  readonly readyMs: number;
  readonly #child: ChildProcess;
  readonly #metrics: string;

  private constructor(
    child: ChildProcess,
    about: { readonly name: string; readonly readyMs: number; readonly metricsPort: number },
  ) {
    this.#child = child;
    this.name = about.name;
    this.readyMs = about.readyMs;
    this.pid = child.pid ?? 0;
    this.#metrics = `http://127.0.0.1:${String(about.metricsPort)}/metrics`;
  }

  /** Starts the compiled program; resolves when it is ready. */
  static async start(name: string, args: readonly string[]): Promise<Service> {
    const metricsPort = await findFreePort();
    const begin = performance.now();
    const metrics = ["--metrics-port", String(metricsPort), "--metrics-address", "127.0.0.1"];
    const logged = ["--log-level", "warn"];
    const child = spawn(join(PACKAGES, name, "bin", name), [...args, ...metrics, ...logged], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await untilReady(child.stdout, child);
    return new Service(child, { name, readyMs: performance.now() - begin, metricsPort });
  }

  async sent(): Promise<Counts> {
    return samplesOf(await this.#print(), "patchbay_api_requests_total");
  }

  /** Calls that it received. */
  async served(): Promise<Counts> {
    return samplesOf(await this.#print(), "patchbay_served_total");
  }

  /** For virt-controllers with leader election. */
  async isLeading(): Promise<boolean> {
    return /^kubevirt_virt_controller_leading_status 1$/m.test(await this.#print());
  }

  async #print(): Promise<string> {
    return (await fetch(this.#metrics)).text();
  }

  /** Whether it has ended, by itself or on request. */
  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Ends gracefully. */
  stop(): Promise<void> {
    return this.#end("SIGTERM");
  }

  kill(): Promise<void> {
    return this.#end("SIGKILL");
  }

  async #end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    if (this.hasEnded) return;
    const exited = once(this.#child, "exit");
    this.#child.kill(signal);
    await exited;
  }
}
