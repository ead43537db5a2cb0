// SPDX-License-Identifier: Apache-2.0
// The API server as users run it, in its own process: start time and memory.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Agent } from "node:https";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { parse } from "yaml";
import { type Identity, makeAgent, readText, send } from "../../contract/apiserver/client.ts";

const PROGRAM = join(import.meta.dirname, "../../../packages/cli/bin/patchbay");

interface Kubeconfig {
  readonly clusters: readonly [{ readonly cluster: Readonly<Record<string, string>> }];
  readonly users: readonly [{ readonly user: Readonly<Record<string, string>> }];
}

function pem(text: string | undefined): string {
  return Buffer.from(text ?? "", "base64").toString();
}

function identityOf(kubeconfig: string): Identity {
  // Written by the started server.
  const { clusters, users } = parse(readFileSync(kubeconfig, "utf8")) as Kubeconfig;
  const { cluster } = clusters[0];
  const { user } = users[0];
  return {
    ca: pem(cluster["certificate-authority-data"]),
    cert: pem(user["client-certificate-data"]),
    key: pem(user["client-key-data"]),
  };
}

export class ServerProcess {
  readonly #child: ChildProcessByStdio<null, Readable, null>;
  readonly #agent: Agent;
  readonly #identity: Identity;
  readonly url: string;
  /** From the start of the process to its line `ready`, milliseconds. */
  readonly readyMs: number;

  private constructor(
    child: ChildProcessByStdio<null, Readable, null>,
    about: { readonly identity: Identity; readonly url: string; readonly readyMs: number },
  ) {
    this.#child = child;
    this.#identity = about.identity;
    this.#agent = this.makeAgent();
    this.url = about.url;
    this.readyMs = about.readyMs;
  }

  /** Starts a server on what is in `dataDir`. */
  static async start(dataDir: string): Promise<ServerProcess> {
    const begin = performance.now();
    const child = spawn(PROGRAM, ["--data-dir", dataDir, "apiserver", "--port", "0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface(child.stdout), "line")) as [string];
    const readyMs = performance.now() - begin;
    const identity = identityOf(join(dataDir, "kubeconfig"));
    return new ServerProcess(child, { identity, url: line.replace("ready ", ""), readyMs });
  }

  /** A client's own connections. */
  makeAgent(): Agent {
    return makeAgent(this.#identity);
  }

  /** Resident memory, MB of 10^6 bytes. */
  rssMb(): number {
    const status = readFileSync(`/proc/${String(this.#child.pid)}/status`, "utf8");
    return (Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024) / 1e6;
  }

  /** Sends a request, a PATCH as a merge patch; returns the response text. Fails unless it succeeds. */
  async ask(method: string, path: string, body?: unknown): Promise<string> {
    // Kubernetes takes a PATCH of any type but plain JSON.
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const sending =
      body === undefined
        ? { method }
        : { method, headers: { "content-type": type }, body: JSON.stringify(body) };
    const answer = await send(this.#agent, `${this.url}${path}`, sending);
    const text = await readText(answer);
    if ((answer.statusCode ?? 500) >= 300) {
      throw new Error(`${method} ${path}: ${String(answer.statusCode)} ${text}`);
    }
    return text;
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await exited;
    this.#agent.destroy();
  }
}
