// SPDX-License-Identifier: Apache-2.0
// A real API server in this process, and a client over TLS.
import type { IncomingMessage } from "node:http";
import { startApiServer } from "@patchbay/apiserver";
import { createClock } from "@patchbay/os";
import { type Authority, createAuthority, issueCertificate, kubeconfigText } from "@patchbay/pki";
import type { Logger } from "@patchbay/base";
import { makeAgent, readText, send } from "./client.ts";
import type {
  ApiServerOptions,
  RunningApiServer,
} from "../../../packages/standalone/apiserver/src/server.ts";

export const QUIET: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => QUIET,
};

/** Fields of objects, lists and errors that tests read; trusted where a test expects them. */
export interface Body {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation?: number;
    readonly creationTimestamp: string;
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
    readonly ownerReferences?: readonly { readonly uid: string }[];
    readonly continue: string;
  };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: readonly unknown[];
  readonly items: readonly Body[];
  readonly reason: string;
  readonly message: string;
  readonly major: string;
  readonly details: {
    readonly causes: readonly { readonly field: string; readonly reason: string }[];
  };
}

/** `body` is parsed JSON. */
export interface Answer {
  readonly code: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly body: Body;
}

export interface Ask {
  readonly body?: unknown;
  readonly type?: string;
  readonly accept?: string;
  /** Another user than the administrator; empty: anonymous. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
}

export interface WatchEvent {
  readonly type: string;
  readonly object: Body;
}

export interface Harness {
  readonly server: RunningApiServer;
  readonly authority: Authority;
  /** Kubeconfig of an administrator. */
  readonly kubeconfig: string;
  ask(method: string, path: string, ask?: Ask): Promise<Answer>;
  /** Sends a request and expects success. */
  get(path: string, accept?: string): Promise<Answer>;
  post(path: string, body: unknown): Promise<Answer>;
  put(path: string, body: unknown): Promise<Answer>;
  patch(path: string, body: unknown, type?: string): Promise<Answer>;
  delete(path: string, body?: unknown): Promise<Answer>;
  watch(path: string): Promise<Watch>;
  /** A streamed response until it is aborted. */
  open(path: string, signal: AbortSignal): Promise<IncomingMessage>;
  close(): Promise<void>;
}

export class Watch implements AsyncDisposable {
  readonly events: WatchEvent[] = [];
  ended = false;
  #wake: () => void = () => undefined;
  readonly #abort = new AbortController();
  readonly #done: Promise<void>;

  constructor(open: (signal: AbortSignal) => Promise<AsyncIterable<Buffer>>) {
    this.#done = this.#read(open).catch(() => undefined);
  }

  async first(count: number, withinMs = 5000): Promise<readonly WatchEvent[]> {
    const deadline = performance.now() + withinMs;
    while (this.events.length < count && !this.ended && performance.now() < deadline) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, deadline - performance.now());
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.events.slice(0, count);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.#done;
  }

  async #read(open: (signal: AbortSignal) => Promise<AsyncIterable<Buffer>>): Promise<void> {
    let rest = "";
    try {
      for await (const chunk of await open(this.#abort.signal)) {
        const lines = `${rest}${chunk.toString()}`.split("\n");
        rest = lines.pop() ?? "";
        this.events.push(...lines.map((line) => JSON.parse(line) as WatchEvent));
        this.#wake();
      }
    } finally {
      this.ended = true;
      this.#wake();
    }
  }
}

export function identity(
  authority: Authority,
  commonName: string,
  organizations: readonly string[],
) {
  return issueCertificate(authority, {
    commonName,
    organizations,
    dnsNames: [],
    ipAddresses: [],
    usages: ["client"],
    validDays: 1,
  });
}

/** Certificates and options of an in-memory server; `change` replaces some of them. */
export async function serverOptions(change: Partial<ApiServerOptions> = {}) {
  const clock = createClock();
  const authority = await createAuthority("test", clock);
  const tls = await issueCertificate(authority, {
    commonName: "apiserver",
    organizations: [],
    dnsNames: ["localhost"],
    ipAddresses: ["127.0.0.1"],
    usages: ["server"],
    validDays: 1,
  });
  const admin = await identity(authority, "kubernetes-admin", ["system:masters"]);
  const options: ApiServerOptions = {
    storePath: ":memory:",
    host: "127.0.0.1",
    port: 0,
    tls,
    clientCaPem: authority.certPem,
    frontProxy: await identity(authority, "front-proxy-client", []),
    frontProxyCaPem: authority.certPem,
    webhookClient: await identity(authority, "webhook-client", []),
    kubeletClient: await identity(authority, "kubelet-client", []),
    tokens: [{ token: "jane-token", user: "jane", groups: ["devs"] }],
    logger: QUIET,
    clock,
    ...change,
  };
  return { options, authority, admin };
}

function toRequest(input: Ask) {
  const { body, type = "application/json", accept = "application/json", token = "" } = input;
  const isEncoded = typeof body === "string" || Buffer.isBuffer(body) || body === undefined;
  const text = isEncoded ? body : JSON.stringify(body);
  return {
    headers: {
      accept,
      ...(body === undefined ? {} : { "content-type": type }),
      ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
      ...input.headers,
    },
    ...(text === undefined ? {} : { body: text }),
  };
}

async function toAnswer(answer: IncomingMessage): Promise<Answer> {
  const text = await readText(answer);
  const isJson = String(answer.headers["content-type"]).startsWith("application/json");
  return {
    code: answer.statusCode ?? 0,
    headers: answer.headers,
    text,
    body: (isJson && text !== "" ? JSON.parse(text) : {}) as Body,
  };
}

export async function startHarness(change: Partial<ApiServerOptions> = {}): Promise<Harness> {
  const { options, authority, admin } = await serverOptions(change);
  const server = await startApiServer(options);
  const ca = authority.certPem;
  const agent = makeAgent({ ca, cert: admin.certPem, key: admin.keyPem });
  const anonymous = makeAgent({ ca });
  const ask = async (method: string, path: string, input: Ask = {}): Promise<Answer> => {
    const used = input.token === undefined ? agent : anonymous;
    return toAnswer(await send(used, `${server.url}${path}`, { method, ...toRequest(input) }));
  };
  return {
    server,
    authority,
    kubeconfig: kubeconfigText({
      server: server.url,
      caPem: ca,
      certPem: admin.certPem,
      keyPem: admin.keyPem,
      user: "kubernetes-admin",
    }),
    ask,
    get: (path, accept) => ask("GET", path, accept === undefined ? {} : { accept }),
    post: (path, body) => ask("POST", path, { body }),
    put: (path, body) => ask("PUT", path, { body }),
    patch: (path, body, type = "application/merge-patch+json") =>
      ask("PATCH", path, { body, type }),
    delete: (path, body) => ask("DELETE", path, body === undefined ? {} : { body }),
    open: (path, signal) => send(agent, `${server.url}${path}`, { signal }),
    watch: (path) =>
      Promise.resolve(new Watch((signal) => send(agent, `${server.url}${path}`, { signal }))),
    close: async () => {
      agent.destroy();
      anonymous.destroy();
      await server.close();
    },
  };
}

/** Kubeconfig of the user jane, who has no rights at first. */
export function janeKubeconfig({ server, authority }: Harness): string {
  const cluster = {
    server: server.url,
    "certificate-authority-data": Buffer.from(authority.certPem).toString("base64"),
  };
  return JSON.stringify({
    "current-context": "a",
    contexts: [{ name: "a", context: { cluster: "a", user: "a" } }],
    clusters: [{ name: "a", cluster }],
    users: [{ name: "a", user: { token: "jane-token" } }],
  });
}

/** The APIService of a KubeVirt installation. */
export const KUBEVIRT_API_SERVICE = {
  apiVersion: "apiregistration.k8s.io/v1",
  kind: "APIService",
  metadata: { name: "v1.subresources.kubevirt.io" },
  spec: {
    group: "subresources.kubevirt.io",
    version: "v1",
    groupPriorityMinimum: 1000,
    versionPriority: 15,
    service: { name: "virt-api", namespace: "kubevirt" },
  },
};

/** A definition of `widgets.<group>` with one version. */
export function widgetDefinition(group: string, schema?: unknown) {
  const size = { type: "object", properties: { size: { type: "string" } } };
  const phase = { type: "object", properties: { phase: { type: "string" } } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `widgets.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural: "widgets", kind: "Widget" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: {
            openAPIV3Schema: schema ?? {
              type: "object",
              properties: { spec: size, status: phase },
            },
          },
        },
      ],
    },
  };
}
