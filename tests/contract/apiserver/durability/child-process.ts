// SPDX-License-Identifier: Apache-2.0
// A server in its own process that a test may kill, and a client for it.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Agent } from "node:https";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { makeAgent, readText, send } from "../client.ts";
import { type Body, Watch } from "../harness.ts";

const ENTRY = fileURLToPath(new URL("./child.ts", import.meta.url));

type Child = ChildProcessByStdio<null, Readable, Readable>;

function run(store: string): Child {
  return spawn(process.execPath, ["--conditions=@patchbay/source", ENTRY, store], {
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** Starts a server that is expected to fail; returns its exit code and output. */
export async function startInVain(store: string): Promise<{ code: number; errors: string }> {
  const child = run(store);
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const [code] = (await once(child, "exit")) as [number];
  return { code, errors };
}

export class ChildServer {
  readonly #child: Child;
  readonly #agent: Agent;
  readonly #url: string;

  private constructor(child: Child, agent: Agent, url: string) {
    this.#child = child;
    this.#agent = agent;
    this.#url = url;
  }

  static async start(store: string): Promise<ChildServer> {
    const child = run(store);
    child.stderr.pipe(process.stderr);
    const ended = once(child, "exit").then(() => {
      throw new Error("the server ended before it was ready");
    });
    const ready = once(createInterface(child.stdout), "line");
    const [line] = (await Promise.race([ready, ended])) as [string];
    ended.catch(() => undefined);
    const { url, ...identity } = JSON.parse(line) as Record<"url" | "ca" | "cert" | "key", string>;
    return new ChildServer(child, makeAgent(identity), url);
  }

  /** Sends a JSON body; PATCH sends a merge patch. */
  async ask(method: string, path: string, body?: unknown): Promise<{ code: number; body: Body }> {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const sending =
      body === undefined
        ? { method }
        : { method, headers: { "content-type": type }, body: JSON.stringify(body) };
    const answer = await send(this.#agent, `${this.#url}${path}`, sending);
    return { code: answer.statusCode ?? 0, body: JSON.parse(await readText(answer)) as Body };
  }

  watch(path: string): Watch {
    return new Watch((signal) => send(this.#agent, `${this.#url}${path}`, { signal }));
  }

  /** Kills it as a power failure would, without effect on the disk cache. */
  async kill(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, "exit");
      this.#child.kill("SIGKILL");
      await exited;
    }
    this.#agent.destroy();
  }
}
