// SPDX-License-Identifier: Apache-2.0
// An aggregated API for a server under test: its Service, its APIService, and the requests it received.
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { eventually } from "@patchbay/support";
import { type Backend, startBackend } from "../backend.ts";
import type { Answer, Harness } from "../harness.ts";

export const API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices";

export interface Behaviour {
  readonly handle?: (request: IncomingMessage, response: ServerResponse) => void;
  readonly upgrade?: (request: IncomingMessage, socket: Duplex) => void;
  /** Replaces fields of the APIService's spec. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

export interface Extension extends AsyncDisposable {
  readonly backend: Backend;
  /** The Service's address. */
  readonly name: string;
  readonly group: string;
  /** Forwarded requests, without discovery. */
  readonly seen: IncomingMessage[];
  /** Number of discovery requests. */
  probes(): number;
  /** `/apis/<group>/v1`. */
  readonly path: string;
}

/** The condition Available of an APIService. */
export async function availableOf(api: Harness, name: string) {
  const { body } = await api.get(`${API_SERVICES}/${name}`);
  const conditions = body.status?.["conditions"] as
    | readonly { type: string; status: string; reason: string; message: string }[]
    | undefined;
  return conditions?.find(({ type }) => type === "Available");
}

/** Waits for this reason of the APIService's condition. */
export function untilReason(api: Harness, name: string, reason: string) {
  const look = async () => {
    const available = await availableOf(api, name);
    return available?.reason === reason ? available : undefined;
  };
  return eventually(look, { withinMs: 8000 });
}

/** Writes a Service and its endpoints. */
export async function expose(api: Harness, name: string, ports: readonly number[]): Promise<void> {
  await api.post("/api/v1/namespaces/default/services", {
    metadata: { name },
    spec: { ports: [{ port: 443, targetPort: 8443 }] },
  });
  await api.post("/api/v1/namespaces/default/endpoints", {
    metadata: { name },
    subsets: ports.map((port) => ({ addresses: [{ ip: "127.0.0.1" }], ports: [{ port }] })),
  });
}

export function register(
  api: Harness,
  given: { readonly name: string; readonly group: string; readonly spec?: object },
): Promise<Answer> {
  return api.post(API_SERVICES, {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name: `v1.${given.group}` },
    spec: {
      group: given.group,
      version: "v1",
      service: { namespace: "default", name: given.name },
      caBundle: Buffer.from(api.authority.certPem).toString("base64"),
      groupPriorityMinimum: 2000,
      versionPriority: 15,
      ...given.spec,
    },
  });
}

function resourcesOf(group: string) {
  const verbs = ["create", "delete", "get", "list", "watch"];
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: `${group}/v1`,
    resources: [
      { name: "things", singularName: "thing", namespaced: true, kind: "Thing", verbs },
      { name: "things/do", singularName: "", namespaced: true, kind: "Thing", verbs: ["update"] },
    ],
  };
}

let started = 0;

/** Starts a server with discovery and its own name, registers it, and waits until it is available. */
export async function startExtension(api: Harness, given: Behaviour = {}): Promise<Extension> {
  const handle = given.handle ?? ((_request, response: ServerResponse) => response.end("{}"));
  started += 1;
  const name = `ext${String(started)}`;
  const group = `${name}.test.io`;
  const path = `/apis/${group}/v1`;
  const observed: IncomingMessage[] = [];
  let probes = 0;
  const backend = await startBackend(api.authority, `${name}.default.svc`, (request, response) => {
    if (request.headers["x-remote-user"] === "system:kube-aggregator" || request.url === path) {
      probes += 1;
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(resourcesOf(group)));
      return;
    }
    observed.push(request);
    handle(request, response);
  });
  if (given.upgrade !== undefined) {
    backend.onUpgrade((request, socket) => {
      observed.push(request);
      given.upgrade?.(request, socket);
    });
  }
  await expose(api, name, [backend.port]);
  await register(api, { name, group, ...(given.spec === undefined ? {} : { spec: given.spec }) });
  await untilReason(api, `v1.${group}`, "Passed");
  return {
    backend,
    name,
    group,
    seen: observed,
    probes: () => probes,
    path,
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  };
}

export async function readBytes(socket: Duplex, bytes: number): Promise<Buffer> {
  let received = Buffer.alloc(0);
  while (received.length < bytes) {
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) {
      await once(socket, "readable");
    } else {
      received = Buffer.concat([received, chunk]);
    }
  }
  return received;
}
