// SPDX-License-Identifier: Apache-2.0
// An API server in its own process that reports its longest blocking, and a client for it.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { Agent } from "node:https";
import { type ConnectionOptions, type TLSSocket, connect } from "node:tls";
import { fileURLToPath } from "node:url";
import type { ApiServerOptions } from "../../packages/standalone/apiserver/src/server.ts";
import { makeAgent, readText, send } from "../contract/apiserver/client.ts";

const ENTRY = fileURLToPath(new URL("./api-server-child.ts", import.meta.url));

/** The message that the process sends when it is ready. */
export interface Ready {
  readonly port: number;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/**
 * Longest time in which an attacked server must answer a health check. Generous, because an idle machine needs
 * milliseconds, but 2.6 s were measured at a load of 20.
 */
export const GREETING_MS = 15_000;

export interface Answer {
  readonly code: number;
  readonly text: string;
}

/** Bytes of memory of a process: now and at most so far. */
export interface Memory {
  readonly now: number;
  readonly most: number;
}

export async function memoryOf(pid: number | undefined): Promise<Memory> {
  const status = await readFile(`/proc/${String(pid)}/status`, "utf8");
  const bytesOf = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
  return { now: bytesOf("VmRSS"), most: bytesOf("VmHWM") };
}

/** A running server with an administrator's client. */
export class ApiServerProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ready: Ready;
  readonly #agent: Agent;
  readonly #other: Agent;

  private constructor(child: ChildProcess, ready: Ready) {
    this.#child = child;
    this.#ready = ready;
    const { ca, cert, key } = ready;
    this.#agent = makeAgent({ ca, cert, key });
    this.#other = makeAgent({ ca });
  }

  static async start(limits: ApiServerOptions["limits"] = {}): Promise<ApiServerProcess> {
    const child = fork(ENTRY, [JSON.stringify(limits)], {
      execArgv: ["--conditions=@patchbay/source"],
    });
    const [ready] = (await once(child, "message")) as [Ready];
    return new ApiServerProcess(child, ready);
  }

  /** Sends a JSON body; PATCH sends a merge patch. */
  ask(method: string, path: string, body?: string): Promise<Answer> {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const input = body === undefined ? {} : { body, headers: { "content-type": type } };
    return this.#send(this.#agent, path, { method, ...input });
  }

  /** Sends a body of that content type: POST creates, PATCH patches. */
  sendAs(contentType: string, path: string, body: string | Buffer): Promise<Answer> {
    const method = contentType.includes("patch") ? "PATCH" : "POST";
    const headers = { "content-type": contentType };
    return this.#send(this.#agent, path, { method, body, headers });
  }

  /**
   * Milliseconds until an unauthenticated client gets a health response, without the time in which the server waited
   * for a processor.
   */
  async greet(): Promise<number> {
    const begun = performance.now() - (await this.#waitedMs());
    const { text } = await this.#send(this.#other, "/healthz", {
      headers: { connection: "close" },
    });
    if (text !== "ok") throw new Error(`the server says ${text}`);
    return performance.now() - (await this.#waitedMs()) - begun;
  }

  /**
   * How long the server's main thread waited for a processor, milliseconds. Source: Linux,
   * Documentation/scheduler/sched-stats.
   */
  async #waitedMs(): Promise<number> {
    const pid = String(this.#child.pid);
    const [, waitedNs] = (await readFile(`/proc/${pid}/task/${pid}/schedstat`, "utf8")).split(" ");
    return Number(waitedNs) / 1e6;
  }

  /** A new connection; `known`: with the administrator's certificate. */
  async connect(known = true): Promise<TLSSocket> {
    const { port, ca, cert, key } = this.#ready;
    const options: ConnectionOptions = { host: "127.0.0.1", port, ca };
    const socket = connect(known ? { ...options, cert, key } : options);
    socket.on("error", () => undefined);
    await once(socket, "secureConnect");
    return socket;
  }

  get port(): number {
    return this.#ready.port;
  }

  /** Longest blocking of other clients since the last call, in milliseconds of processor time. */
  async longestTurnMs(): Promise<number> {
    const answer = once(this.#child, "message");
    this.#child.send("longest turn");
    const [longest] = (await answer) as [number];
    return longest;
  }

  memory(): Promise<Memory> {
    return memoryOf(this.#child.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    this.#other.destroy();
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }

  async #send(agent: Agent, path: string, sending: Parameters<typeof send>[2]): Promise<Answer> {
    const answer = await send(agent, `https://127.0.0.1:${String(this.port)}${path}`, sending);
    return { code: answer.statusCode ?? 0, text: await readText(answer) };
  }
}
