// SPDX-License-Identifier: Apache-2.0
// An API server with one VM for tests, which sends prepared versions of its objects.
import { writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

/** Paths of the kinds in namespace `blue`. */
export const VMS = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachines";
export const VMIS = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachineinstances";
export const MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachineinstancemigrations";
export const SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/namespaces/blue";

type Phases = readonly { readonly phase: string; readonly reason?: string }[];

/** A server with one namespace, whose VMI changes after the first request for a change. */
export class FakeMachine {
  readonly requests: {
    readonly method: string;
    readonly path: string;
    readonly body: string;
    readonly isDryRun?: boolean;
  }[] = [];
  /** Response to a dry run, and its warning. */
  judgement: { readonly body: object; readonly warning?: string } = { body: {} };
  objects: Readonly<Record<string, object>> = {};
  /** Versions of the VMI `one` that are sent after a request; undefined deletes the VMI. */
  after: readonly (object | undefined)[] = [];
  /** Versions of the VMI's migration that are sent after those of the VMI. */
  migrationAfter: readonly object[] = [];
  vmAfter: readonly object[] = [];
  /** Called after all versions were sent. */
  onAllSent: () => void = () => undefined;
  requested: (path: string) => void = () => undefined;
  refusal: { readonly code: number; readonly body: object } | undefined;
  /** Responses of open watches, by path. */
  readonly #watches = new Map<string, ServerResponse>();
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        const url = new URL(request.url ?? "/", "http://machine");
        const isDryRun = url.searchParams.has("dryRun");
        this.requests.push({
          method: request.method ?? "",
          path: url.pathname,
          body,
          ...(isDryRun && { isDryRun }),
        });
        this.requested(url.pathname);
        if (isDryRun) this.#judge(response);
        else if (["PUT", "PATCH"].includes(request.method ?? "")) this.#change(response);
        else if (url.searchParams.has("watch")) this.#watch(url, response);
        else this.#read(url, response);
      });
    });
  }

  async start(directory: string): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const { port } = this.#server.address() as AddressInfo; // it listens on TCP
    const path = join(directory, "config");
    writeFileSync(
      path,
      JSON.stringify({
        "current-context": "a",
        contexts: [{ name: "a", context: { cluster: "a", user: "a", namespace: "blue" } }],
        clusters: [{ name: "a", cluster: { server: `http://127.0.0.1:${String(port)}` } }],
        users: [{ name: "a", user: {} }],
      }),
    );
    return path;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(response: ServerResponse, code: number, body: object): void {
    response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  #read(url: URL, response: ServerResponse): void {
    if (url.searchParams.has("fieldSelector")) {
      const object = this.objects[`${url.pathname}/one`];
      const items = object === undefined ? [] : [object];
      this.#answer(response, 200, { metadata: { resourceVersion: "1" }, items });
      return;
    }
    const object = this.objects[url.pathname];
    const details = { name: url.pathname };
    const missing = { kind: "Status", reason: "NotFound", code: 404, message: "gone", details };
    this.#answer(response, object === undefined ? 404 : 200, object ?? missing);
  }

  #watch(url: URL, response: ServerResponse): void {
    response.writeHead(200);
    response.flushHeaders();
    this.#watches.set(url.pathname, response);
    this.#sendVersions();
  }

  #judge(response: ServerResponse): void {
    const { warning, body } = this.judgement;
    if (warning !== undefined) response.setHeader("warning", `299 - "${warning}"`);
    this.#answer(response, this.refusal?.code ?? 200, this.refusal?.body ?? body);
  }

  #change(response: ServerResponse): void {
    if (this.refusal !== undefined) {
      this.#answer(response, this.refusal.code, this.refusal.body);
      return;
    }
    this.#hasChangeRequest = true;
    response.writeHead(202).end();
    this.#sendVersions();
  }

  #hasChangeRequest = false;

  /** Sends the versions as soon as there is a watch and a request for a change. */
  #sendVersions(): void {
    const watch = this.#watches.get(VMIS);
    if (watch === undefined || !this.#hasChangeRequest) return;
    for (const version of this.after) {
      const type = version === undefined ? "DELETED" : "MODIFIED";
      watch.write(`${JSON.stringify({ type, object: version ?? vmiOf("gone") })}\n`);
    }
    this.after = [];
    this.migrationAfter = this.#sendTo(MIGRATIONS, this.migrationAfter);
    if (!this.#watches.has(VMS)) return;
    this.vmAfter = this.#sendTo(VMS, this.vmAfter);
    this.onAllSent();
  }

  /** Sends the versions to a watch. Returns those that were not sent: all of them if there is no watch. */
  #sendTo(path: string, versions: readonly object[]): readonly object[] {
    const watch = this.#watches.get(path);
    for (const object of watch === undefined ? [] : versions) {
      watch?.write(`${JSON.stringify({ type: "MODIFIED", object })}\n`);
    }
    return watch === undefined ? versions : [];
  }
}

export function vmiOf(resourceVersion: string, more: object = {}): object {
  const metadata = { namespace: "blue", name: "one", uid: "u1", resourceVersion };
  return { metadata, spec: { domain: {} }, status: { phase: "Running" }, ...more };
}

export function migrationOf(resourceVersion: string, status: object): object {
  const metadata = { namespace: "blue", name: "m-1", uid: "m1", resourceVersion };
  return { metadata, spec: { vmiName: "one" }, status };
}

/** Builds a version of the VMI with an interface that is being plugged. */
export function plugged(resourceVersion: string, hotplug: Phases[number]): object {
  const interfaces = [{ name: "red", hotplug: { type: "Plug", ...hotplug } }];
  return vmiOf(resourceVersion, { status: { phase: "Running", interfaces } });
}
