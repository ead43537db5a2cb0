// SPDX-License-Identifier: Apache-2.0
// Can the server of an APIService be reached, and does it know its group version? Asked for real.
import { messageOf } from "@patchbay/core/errors";
import type { Connections, Peer } from "../backend/connections.ts";
import { type Answer, exchange } from "../backend/exchange.ts";
import { printHostPort } from "../backend/failure.ts";
import {
  type ServiceReference,
  type Unresolved,
  toServiceReference,
} from "../backend/service-address.ts";
import { type Fields, fieldsOf, parseJson, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import { isAggregated, resolveApiService, toPeer } from "./api-services.ts";
import { userHeaders } from "./front-proxy-headers.ts";
import type { RemoteDiscovery } from "./remote-discovery.ts";

/** What was found. Source: Kubernetes kube-aggregator, condition Available. */
export interface Availability {
  readonly status: "True" | "False";
  readonly reason: "Local" | "Passed" | "FailedDiscoveryCheck" | Unresolved;
  readonly message: string;
}

/** Where a server is found, how it is reached, and where what it says of itself is kept. */
export interface ProbeDeps {
  readonly store: Store;
  readonly connections: Connections;
  /** Gets what the servers say of themselves. */
  readonly remote: RemoteDiscovery;
}

/** Source: Kubernetes kube-aggregator. */
const TIMEOUT_MS = 5000;

/** As whom the server asks for itself: somebody who may ask everything. */
const PROBER = { name: "system:kube-aggregator", groups: ["system:masters"] };

export const LOCAL: Availability = {
  status: "True",
  reason: "Local",
  message: "Local APIServices are always available",
};

function describe(reference: ServiceReference, reason: Unresolved, portName: string): string {
  const where = `service/${reference.name} in "${reference.namespace}"`;
  switch (reason) {
    case "ServiceNotFound":
      return `${where} is not present`;
    case "ServicePortError":
      return `${where} is not listening on port ${String(reference.port)}`;
    case "EndpointsNotFound":
      return `cannot find endpoints for ${where}`;
    case "MissingEndpoints":
      return `endpoints for ${where} have no addresses with port name "${portName}"`;
  }
}

/** Asks for the group version's resources: the answer's text. Throws an Error with a text for people. */
async function askDiscovery(peer: Peer, path: string, connections: Connections): Promise<string> {
  const [at = { host: "", port: 0 }] = peer.at;
  const url = `https://${printHostPort(at)}${path}`;
  const headers = { host: printHostPort(at), accept: "application/json", ...userHeaders(PROBER) };
  const question = { method: "GET", path, headers, timeoutMs: TIMEOUT_MS } as const;
  const failing = `failing or missing response from ${url}`;
  let answer: Answer;
  try {
    answer = await exchange(peer, question, connections);
  } catch (error) {
    throw new Error(`${failing}: Get "${url}": ${messageOf(error)}`, { cause: error });
  }
  if (answer.code < 200 || answer.code > 299) {
    throw new Error(`${failing}: bad status from ${url}: ${String(answer.code)}`);
  }
  return answer.text;
}

function parsed(text: string): Fields {
  try {
    return fieldsOf(parseJson(text));
  } catch {
    // Whoever answers without JSON is there, but says nothing of its resources.
    return {};
  }
}

/** Where the server has its OpenAPI document; empty where it has none. */
async function askOpenApi(peer: Peer, key: string, connections: Connections): Promise<string> {
  try {
    const index = parsed(await askDiscovery(peer, "/openapi/v3", connections));
    return textAt(index, "paths", key, "serverRelativeURL");
  } catch {
    // Servers need not have any.
    return "";
  }
}

/** Looks at Service and endpoints, then asks the server. The certificate is not judged here: each request that is passed on does that. */
export async function probe(apiService: KubeObject, deps: ProbeDeps): Promise<Availability> {
  if (!isAggregated(apiService)) {
    return LOCAL;
  }
  const resolution = resolveApiService(deps.store, apiService);
  if (!resolution.found) {
    const { reason, portName } = resolution;
    const reference = toServiceReference(valueAt(apiService, "spec", "service"));
    return { status: "False", reason, message: describe(reference, reason, portName) };
  }
  const peer = { ...toPeer(apiService, resolution), caPem: "", insecure: true };
  const [group, version] = [
    textAt(apiService, "spec", "group"),
    textAt(apiService, "spec", "version"),
  ];
  const path = `apis/${group}/${version}`;
  try {
    const resources = parsed(await askDiscovery(peer, `/${path}`, deps.connections));
    const openApiUrl = await askOpenApi(peer, path, deps.connections);
    deps.remote.remember(apiService.metadata.name, { resources, openApiUrl });
  } catch (error) {
    return { status: "False", reason: "FailedDiscoveryCheck", message: messageOf(error) };
  }
  return { status: "True", reason: "Passed", message: "all checks passed" };
}
