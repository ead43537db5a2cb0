// SPDX-License-Identifier: Apache-2.0
// A fake API server for the panel with a test's objects: sends their changes and records requests.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { KubeObject } from "@patchbay/api/kubernetes";

/** Plural names, as in paths. */
export type Plural =
  | "virtualmachines"
  | "virtualmachineinstances"
  | "network-attachment-definitions";

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly isDryRun: boolean;
  readonly body: unknown;
}

const PLURALS: readonly Plural[] = [
  "virtualmachines",
  "virtualmachineinstances",
  "network-attachment-definitions",
];

async function readBody(request: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text === "" ? undefined : JSON.parse(text);
}

export class FakeCluster {
  readonly asked: Asked[] = [];
  /** The user's rights; omitted: all. */
  rules: readonly object[] = [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }];
  /** Each node's traffic figures of a guest. */
  traffic: () => readonly object[] = () => [];
  events: readonly object[] = [];
  /** The doctor's result for the interface. */
  way: (iface: string) => object = () => ({});
  /** The response to a change; undefined: accepted. */
  refusal: object | undefined;
  /** Which changes that response is for. */
  refuses: (asked: Asked) => boolean = () => true;
  readonly #objects = new Map<Plural, Map<string, KubeObject>>();
  readonly #watches = new Map<Plural, Set<ServerResponse>>();
  #revision = 1;
  readonly #server: Server;

  private constructor() {
    for (const plural of PLURALS) {
      this.#objects.set(plural, new Map());
      this.#watches.set(plural, new Set());
    }
    this.#server = createServer((request, response) => {
      void readBody(request).then((body) => {
        this.#answer(request, response, body);
      });
    });
  }

  static async start(): Promise<FakeCluster> {
    const cluster = new FakeCluster();
    cluster.#server.listen(0, "127.0.0.1");
    await once(cluster.#server, "listening");
    return cluster;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${String(port)}`;
  }

  /** Creates or changes an object and notifies watchers. */
  put(plural: Plural, object: KubeObject): void {
    this.#revision += 1;
    const resourceVersion = String(this.#revision);
    const made = { ...object, metadata: { ...object.metadata, resourceVersion } };
    const { namespace = "", name } = object.metadata;
    this.#objects.get(plural)?.set(`${namespace}/${name}`, made);
    this.#tell(plural, "MODIFIED", made);
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #tell(plural: Plural, type: string, object: KubeObject): void {
    const line = `${JSON.stringify({ type, object })}\n`;
    for (const response of this.#watches.get(plural) ?? []) response.write(line);
  }

  #answer(request: IncomingMessage, response: ServerResponse, body: unknown): void {
    const { pathname: path, searchParams } = new URL(request.url ?? "/", this.url);
    const { method = "" } = request;
    const plural = PLURALS.find((each) => path.endsWith(`/${each}`));
    if (method === "GET" && plural !== undefined) {
      if (searchParams.has("watch")) this.#watch(plural, response);
      else this.#list(plural, response);
      return;
    }
    if (path.endsWith("/interfacetraffic")) {
      this.#send(response, 200, { metadata: {}, items: this.traffic() });
      return;
    }
    if (path.endsWith("/doctor")) {
      this.#send(response, 200, this.way(searchParams.get("iface") ?? ""));
      return;
    }
    if (path.endsWith("/events")) {
      this.#send(response, 200, { metadata: {}, items: this.events });
      return;
    }
    if (path === "/version") {
      this.#send(response, 200, { major: "1", minor: "36" });
      return;
    }
    if (path.endsWith("reviews")) {
      this.#send(response, 201, { status: { allowed: true, resourceRules: this.rules } });
      return;
    }
    const asked = { method, path, isDryRun: searchParams.has("dryRun"), body };
    this.asked.push(asked);
    if (this.refusal === undefined || !this.refuses(asked)) {
      this.#send(response, 202, this.#acceptedAnswer(asked));
    } else this.#send(response, 409, this.refusal);
  }

  /** A created object with a UID, otherwise a status. */
  #acceptedAnswer({ method, path, body }: Asked): object {
    const object = body as Partial<KubeObject> | undefined;
    if (method !== "POST" || object?.metadata === undefined) {
      return { kind: "Status", message: this.#wordsOn(path, body) };
    }
    return { ...object, metadata: { ...object.metadata, uid: `${object.metadata.name}-uid` } };
  }

  /** As virt-api formats it. */
  #wordsOn(path: string, body: unknown): string {
    const [, namespace = "", name = ""] =
      /namespaces\/([^/]+)\/[^/]+\/([^/]+)\/addinterface$/.exec(path) ?? [];
    if (name === "") return "";
    const { name: iface = "" } = body as { readonly name?: string };
    const isLive = this.#objects.get("virtualmachineinstances")?.has(`${namespace}/${name}`);
    const when = isLive === true ? "into the running guest" : "when the VM starts";
    return `interface '${iface}' will be plugged ${when}`;
  }

  #list(plural: Plural, response: ServerResponse): void {
    const items = [...(this.#objects.get(plural)?.values() ?? [])];
    this.#send(response, 200, { metadata: { resourceVersion: String(this.#revision) }, items });
  }

  #watch(plural: Plural, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const watches = this.#watches.get(plural);
    watches?.add(response);
    response.on("close", () => watches?.delete(response));
  }

  #send(response: ServerResponse, status: number, body: object): void {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }
}
