// SPDX-License-Identifier: Apache-2.0
// An API server with one VMI and its streams, and the program `patchbay`.
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { STREAM_PROTOCOL } from "@patchbay/core/guest";
import { executableOf } from "@patchbay/support";
import { WebSocketServer, type WebSocket } from "ws";

const VMI_PATH = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/vm";
const VMI = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachineInstance",
  metadata: { name: "vm", namespace: "default" },
  spec: { domain: {} },
  status: { phase: "Running", nodeName: "n" },
};

export interface CommandEnd {
  readonly code: number | null;
  readonly err: string;
}

export interface CommandProcess {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly ended: Promise<CommandEnd>;
}

export interface Visit {
  /** Below the VMI, with its query. */
  readonly what: string;
  readonly socket: WebSocket;
}

function statusText(code: number, reason: string, message: string): string {
  const details = { name: "vm" };
  return JSON.stringify({
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    reason,
    message,
    details,
  });
}

export class ConsoleMachine implements AsyncDisposable {
  readonly visits: Visit[] = [];
  /** Each stream is in use; a request may preserve the current user. */
  isInUse = false;
  readonly #directory = mkdtempSync(join(tmpdir(), "patchbay-console-"));
  readonly #api: Server;
  readonly #children: CommandProcess["child"][] = [];

  private constructor(api: Server) {
    this.#api = api;
  }

  static async start(): Promise<ConsoleMachine> {
    const api = createServer((request, response) => {
      const isThere = request.url?.startsWith(VMI_PATH) === true;
      response.writeHead(isThere ? 200 : 404, { "content-type": "application/json" });
      response.end(isThere ? JSON.stringify(VMI) : statusText(404, "NotFound", "not found"));
    });
    const machine = new ConsoleMachine(api);
    machine.#serveStreams();
    api.listen(0, "127.0.0.1");
    await once(api, "listening");
    const { port } = api.address() as AddressInfo;
    writeFileSync(
      join(machine.#directory, "kubeconfig"),
      `current-context: a
contexts: [{ name: a, context: { cluster: a, user: a } }]
clusters: [{ name: a, cluster: { server: "http://127.0.0.1:${String(port)}" } }]
users: [{ name: a, user: { token: secret } }]
`,
    );
    return machine;
  }

  /** In virt-api's format. */
  #serveStreams(): void {
    const sockets = new WebSocketServer({
      noServer: true,
      handleProtocols: (offered) => (offered.has(STREAM_PROTOCOL) ? STREAM_PROTOCOL : false),
    });
    this.#api.on("upgrade", (request, socket, head) => {
      const { url = "", headers } = request;
      const [, what = ""] = url.split("/virtualmachineinstances/vm/");
      if (headers.authorization !== "Bearer secret") {
        socket.end("HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n");
      } else if (this.isInUse && what.includes("preserveSession=true")) {
        const text = statusText(409, "Conflict", "the console of default/vm is in use");
        const length = String(Buffer.byteLength(text));
        socket.end(
          `HTTP/1.1 409 Conflict\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n${text}`,
        );
      } else {
        sockets.handleUpgrade(request, socket, head, (made) => {
          this.visits.push({ what, socket: made });
        });
      }
    });
  }

  run(...args: readonly string[]): CommandProcess {
    const argv = [...args, "--kubeconfig", join(this.#directory, "kubeconfig")];
    const child = spawn(executableOf("patchbay"), argv, {
      env: { PATH: process.env["PATH"] ?? "", HOME: this.#directory },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#children.push(child);
    const output: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (text: string) => output.push(text));
    const ended = once(child, "exit").then(([code]) => {
      return { code: code as number | null, err: output.join("") };
    });
    return { child, ended };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    for (const { socket } of this.visits) socket.terminate();
    this.#api.closeAllConnections();
    this.#api.close();
    await once(this.#api, "close");
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
