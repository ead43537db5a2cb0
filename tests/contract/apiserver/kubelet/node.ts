// SPDX-License-Identifier: Apache-2.0
// A node with a pod and a fake kubelet.
import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { type Backend, startBackend } from "../backend.ts";
import type { Harness } from "../harness.ts";

const PODS = "/api/v1/namespaces/default/pods";

export interface TestNode extends AsyncDisposable {
  readonly backend: Backend;
  /** Requests to the kubelet: the client's common name, method and target. */
  readonly seen: readonly string[];
  /** Creates a pod with these containers on the node; returns its path. */
  pod(name: string, ...containers: readonly string[]): Promise<string>;
}

export function clientOf({ socket }: IncomingMessage): string {
  const subject =
    socket instanceof TLSSocket ? socket.getPeerX509Certificate()?.subject : undefined;
  return /CN=(.*)/.exec(subject ?? "")?.[1] ?? "";
}

/** Registers a node whose kubelet is at this port of the loopback address. */
export async function registerNode(api: Harness, name: string, port: number): Promise<void> {
  const made = await api.post("/api/v1/nodes", { metadata: { name } });
  const status = {
    addresses: [
      { type: "Hostname", address: "nowhere.invalid" },
      { type: "InternalIP", address: "127.0.0.1" },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  await api.put(`/api/v1/nodes/${name}/status`, { ...made.body, status });
}

/** Creates a pod on a node; returns its path. */
export async function makePod(
  api: Harness,
  place: { readonly name: string; readonly nodeName?: string },
  containers: readonly string[],
): Promise<string> {
  const { name, nodeName } = place;
  const spec = { nodeName, containers: containers.map((one) => ({ name: one, image: "i" })) };
  await api.post(PODS, { metadata: { name }, spec });
  return `${PODS}/${name}`;
}

/** Starts a fake kubelet and registers its node; `dnsName`: the name in its certificate, to use a wrong one. */
export async function startNode(
  api: Harness,
  { nodeName, dnsName = nodeName }: { readonly nodeName: string; readonly dnsName?: string },
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<TestNode> {
  const observed: string[] = [];
  const backend = await startBackend(api.authority, dnsName, (request, response) => {
    observed.push(`${clientOf(request)} ${request.method ?? ""} ${request.url ?? ""}`);
    handle(request, response);
  });
  await registerNode(api, nodeName, backend.port);
  return {
    backend,
    seen: observed,
    pod: (name, ...containers) => makePod(api, { name, nodeName }, containers),
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  };
}
