// SPDX-License-Identifier: Apache-2.0
// A data directory with one VMI's console in it, an API server that knows this VMI and nothing else, and `patchbay console`.
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";

const MAIN = join(import.meta.dirname, "../../../packages/patchbay/src/main.ts");
const UID = "0f1e2d3c-0000-4000-8000-000000000001";
const VMI_PATH = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/vm";
const VMI = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachineInstance",
  metadata: { name: "vm", namespace: "default" },
  spec: { domain: {} },
  status: { phase: "Running", nodeName: "n", activePods: { [UID]: "n" } },
};

/** How a console ended. */
export interface ConsoleEnd {
  readonly code: number | null;
  readonly err: string;
}

/** A running `patchbay console vm`. */
export interface ConsoleProcess {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly ended: Promise<ConsoleEnd>;
}

/** A unix socket and who has come to it. */
export interface Listener {
  readonly server: Server;
  readonly visitors: readonly Socket[];
}

export class ConsoleMachine implements AsyncDisposable {
  readonly dataDir = mkdtempSync(join(tmpdir(), "patchbay-console-"));
  readonly #api: HttpServer;
  readonly #listeners: Listener[] = [];
  readonly #children: ConsoleProcess["child"][] = [];

  private constructor(api: HttpServer) {
    this.#api = api;
  }

  static async start(): Promise<ConsoleMachine> {
    const api = createHttpServer((request, response) => {
      const isThere = request.url?.startsWith(VMI_PATH) === true;
      const missing = { kind: "Status", apiVersion: "v1", status: "Failure", code: 404 };
      response.writeHead(isThere ? 200 : 404, { "content-type": "application/json" });
      response.end(
        JSON.stringify(isThere ? VMI : { ...missing, reason: "NotFound", details: { name: "vm" } }),
      );
    });
    api.listen(0, "127.0.0.1");
    await once(api, "listening");
    const machine = new ConsoleMachine(api);
    mkdirSync(machine.launcherDir, { recursive: true });
    mkdirSync(join(machine.dataDir, "run"), { mode: 0o700 });
    // A server that listens on an address has one.
    const { port } = api.address() as AddressInfo;
    writeFileSync(
      join(machine.dataDir, "kubeconfig"),
      `current-context: a
contexts: [{ name: a, context: { cluster: a, user: a } }]
clusters: [{ name: a, cluster: { server: "http://127.0.0.1:${String(port)}" } }]
users: [{ name: a, user: {} }]
`,
    );
    return machine;
  }

  /** What the launcher's user may write. */
  get launcherDir(): string {
    return join(this.dataDir, "pods", UID, "volumes/kubernetes.io~empty-dir/launcher");
  }

  async listen(path: string): Promise<Listener> {
    const visitors: Socket[] = [];
    const server = createServer((socket) => visitors.push(socket.on("error", () => undefined)));
    server.listen(path);
    await once(server, "listening");
    const listener = { server, visitors };
    this.#listeners.push(listener);
    return listener;
  }

  /** The guest's console; the path is too long to listen at, so it is moved there. */
  async listenAsGuest(): Promise<Listener> {
    const listener = await this.listen(join(this.dataDir, "guest.sock"));
    renameSync(join(this.dataDir, "guest.sock"), join(this.launcherDir, "serial0.sock"));
    return listener;
  }

  open(): ConsoleProcess {
    const argv = ["--conditions=@patchbay/source", MAIN, "console", "vm"];
    const child = spawn(process.execPath, [...argv, "--data-dir", this.dataDir], {
      env: { PATH: process.env["PATH"] ?? "", HOME: this.dataDir },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#children.push(child);
    const said: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (text: string) => said.push(text));
    const ended = once(child, "exit").then(([code]) => {
      return { code: code as number | null, err: said.join("") }; // what the event brings
    });
    return { child, ended };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    for (const { server, visitors } of this.#listeners) {
      for (const visitor of visitors) visitor.destroy();
      server.close();
    }
    this.#api.closeAllConnections();
    this.#api.close();
    await once(this.#api, "close");
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}
