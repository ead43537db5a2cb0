// SPDX-License-Identifier: Apache-2.0
// A service as its image starts it, with a port for probes.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { parseJson } from "@patchbay/api/json";
import { eventually, executableOf, type ProgramName } from "@patchbay/support";

/** Time to load a program on a busy machine. */
const TIMEOUT = { withinMs: 45_000 };

interface Line {
  readonly message?: string;
  readonly reason?: string;
  readonly at?: number;
}

export class Service {
  readonly #child: ChildProcess;
  readonly lines: Line[] = [];

  constructor(name: ProgramName, ...flags: readonly string[]) {
    const argv = ["--health-port", "0", ...flags];
    this.#child = spawn(executableOf(name), argv, { stdio: ["ignore", "ignore", "pipe"] });
    const { stderr } = this.#child;
    if (stderr === null) throw new Error("no standard error");
    createInterface(stderr).on("line", (line) => {
      this.lines.push(parseJson(line) ?? { message: line });
    });
  }

  /** The first log line with that message, once it is written. */
  until(message: string): Promise<Line> {
    return eventually(() => this.lines.find((line) => line.message === message), TIMEOUT);
  }

  /** A probe's status code; 0: no server. */
  async probe(path: "/healthz" | "/readyz"): Promise<number> {
    const { at } = await this.until("serving health checks");
    return fetch(`http://127.0.0.1:${String(at)}${path}`).then(
      ({ status }) => status,
      () => 0,
    );
  }

  /** Its exit code; undefined while it runs. */
  get exitCode(): number | undefined {
    return this.#child.exitCode ?? undefined;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}
