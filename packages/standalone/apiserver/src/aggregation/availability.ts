// SPDX-License-Identifier: Apache-2.0
// Determines the condition `Available` of APIServices. Source: Kubernetes kube-aggregator.
import { messageOf } from "@patchbay/base";
import { type Connections, type Peer, printHostPort } from "../backend/connections.ts";
import { type BackendResponse, exchange } from "../backend/exchange.ts";
import {
  type ServiceReference,
  type UnresolvedReason,
  toServiceReference,
} from "../backend/service-address.ts";
import { changeInternally } from "../controllers/internal-writes.ts";
import { WorkQueue } from "../controllers/work-queue.ts";
import {
  type Fields,
  equalJson,
  asFields,
  asList,
  parseJson,
  textAt,
  valueAt,
} from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Change, Store } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import {
  API_SERVICES_BUCKET,
  findAvailableCondition,
  isAggregated,
  resolveApiService,
  toPeer,
} from "./api-services.ts";
import { userHeaders } from "./front-proxy.ts";
import type { RemoteDiscovery } from "./remote-discovery.ts";

interface Availability {
  readonly status: "True" | "False";
  readonly reason: "Local" | "Passed" | "FailedDiscoveryCheck" | UnresolvedReason;
  readonly message: string;
}

interface ProbeDeps {
  readonly store: Store;
  readonly connections: Connections;
  readonly remote: RemoteDiscovery;
}

const PROBE_TIMEOUT_MS = 5000;

const PROBE_USER = { name: "system:kube-aggregator", groups: ["system:masters"] };

export const LOCALLY_AVAILABLE: Availability = {
  status: "True",
  reason: "Local",
  message: "Local APIServices are always available",
};

function describeUnavailable(
  reference: ServiceReference,
  reason: UnresolvedReason,
  portName: string,
): string {
  const serviceText = `service/${reference.name} in "${reference.namespace}"`;
  switch (reason) {
    case "ServiceNotFound":
      return `${serviceText} is not present`;
    case "ServicePortError":
      return `${serviceText} is not listening on port ${String(reference.port)}`;
    case "EndpointsNotFound":
      return `cannot find endpoints for ${serviceText}`;
    case "MissingEndpoints":
      return `endpoints for ${serviceText} have no addresses with port name "${portName}"`;
  }
}

async function fetchDiscovery(peer: Peer, path: string, connections: Connections): Promise<string> {
  const [address = { host: "", port: 0 }] = peer.addresses;
  const url = `https://${printHostPort(address)}${path}`;
  const headers = {
    host: printHostPort(address),
    accept: "application/json",
    ...userHeaders(PROBE_USER),
  };
  const backendRequest = { method: "GET", path, headers, timeoutMs: PROBE_TIMEOUT_MS } as const;
  const failureText = `failing or missing response from ${url}`;
  let response: BackendResponse;
  try {
    response = await exchange(peer, backendRequest, connections);
  } catch (error) {
    throw new Error(`${failureText}: Get "${url}": ${messageOf(error)}`, { cause: error });
  }
  if (response.code < 200 || response.code > 299) {
    throw new Error(`${failureText}: bad status from ${url}: ${String(response.code)}`);
  }
  return response.text;
}

function parseFields(text: string): Fields {
  try {
    return asFields(parseJson(text));
  } catch {
    // A server that responds is available, even if its discovery document is invalid.
    return {};
  }
}

async function fetchOpenApiUrl(peer: Peer, key: string, connections: Connections): Promise<string> {
  try {
    const index = parseFields(await fetchDiscovery(peer, "/openapi/v3", connections));
    return textAt(index, "paths", key, "serverRelativeURL");
  } catch {
    // An extension API server may have no OpenAPI documents.
    return "";
  }
}

/** Requests discovery documents. Does not verify the certificate, because each proxied request verifies it. */
async function probe(apiService: KubeObject, deps: ProbeDeps): Promise<Availability> {
  if (!isAggregated(apiService)) {
    return LOCALLY_AVAILABLE;
  }
  const resolution = resolveApiService(deps.store, apiService);
  if (!resolution.isResolved) {
    const { reason, portName } = resolution;
    const reference = toServiceReference(valueAt(apiService, "spec", "service"));
    return { status: "False", reason, message: describeUnavailable(reference, reason, portName) };
  }
  const peer = { ...toPeer(apiService, resolution), caPem: "", isInsecure: true };
  const [group, version] = [
    textAt(apiService, "spec", "group"),
    textAt(apiService, "spec", "version"),
  ];
  const path = `apis/${group}/${version}`;
  try {
    const resources = parseFields(await fetchDiscovery(peer, `/${path}`, deps.connections));
    const openApiUrl = await fetchOpenApiUrl(peer, path, deps.connections);
    deps.remote.cache(apiService.metadata.name, { resources, openApiUrl });
  } catch (error) {
    return { status: "False", reason: "FailedDiscoveryCheck", message: messageOf(error) };
  }
  return { status: "True", reason: "Passed", message: "all checks passed" };
}

const PROBE_INTERVAL_MS = 30_000;

/** Maximum delay between retries. It is short, so that a server is marked available soon after it starts. */
const PROBE_RETRY_MAX_MS = 1000;

const BACKENDS: ReadonlySet<string> = new Set(["/services", "/endpoints"]);

type AvailabilityDeps = VerbDeps & Pick<ProbeDeps, "connections" | "remote">;

function withCondition(
  apiService: KubeObject,
  availability: Availability,
  now: string,
): KubeObject {
  const status = asFields(apiService["status"]);
  const previousCondition = findAvailableCondition(apiService);
  const lastTransitionTime =
    textAt(previousCondition, "status") === availability.status
      ? textAt(previousCondition, "lastTransitionTime")
      : now;
  const otherConditions = asList(status["conditions"]).filter(
    (condition) => condition !== previousCondition,
  );
  const condition = { type: "Available", ...availability, lastTransitionTime: lastTransitionTime };
  apiService["status"] = { ...status, conditions: [...otherConditions, condition] };
  return apiService;
}

function isReported(apiService: KubeObject, availability: Availability): boolean {
  const condition = findAvailableCondition(apiService);
  return Object.entries(availability).every(([key, value]) => textAt(condition, key) === value);
}

/** Probes the server and writes the condition. Throws if discovery fails, so that the queue retries soon. */
async function updateCondition(deps: AvailabilityDeps, name: string): Promise<void> {
  const address = { bucket: API_SERVICES_BUCKET, namespace: "", name };
  const kind = deps.registry.findByBucket(API_SERVICES_BUCKET);
  const observedApiService = deps.store.find(address)?.view();
  if (kind === undefined || observedApiService === undefined) {
    return;
  }
  const availability = await probe(observedApiService, deps);
  if (!isReported(observedApiService, availability)) {
    const target = { kind, address, subresource: "status" };
    await changeInternally(deps, target, (apiService) =>
      equalJson(apiService["spec"], observedApiService["spec"])
        ? withCondition(apiService, availability, rfc3339(deps.clock.now()))
        : apiService,
    );
  }
  if (availability.reason === "FailedDiscoveryCheck") {
    throw new Error(availability.message);
  }
}

function affectedApiServices(deps: VerbDeps, { current, previous }: Change): readonly string[] {
  const { bucket, namespace, name } = current.address;
  if (bucket === API_SERVICES_BUCKET) {
    const isSame = equalJson(current.view()["spec"], previous?.view()["spec"]);
    return isSame ? [] : [name];
  }
  return BACKENDS.has(bucket)
    ? deps.store
        .list({ bucket: API_SERVICES_BUCKET })
        .filter((stored) => {
          const service = valueAt(stored.view(), "spec", "service");
          return textAt(service, "name") === name && textAt(service, "namespace") === namespace;
        })
        .map((stored) => stored.address.name)
    : [];
}

async function probePeriodically(
  deps: VerbDeps,
  stop: AbortSignal,
  add: (name: string) => void,
): Promise<void> {
  while (!stop.aborted) {
    await deps.clock.sleep(PROBE_INTERVAL_MS, stop).catch(() => undefined);
    for (const stored of deps.store.list({ bucket: API_SERVICES_BUCKET })) {
      if (isAggregated(stored.view())) {
        add(stored.address.name);
      }
    }
  }
}

export function startAvailability(deps: AvailabilityDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => updateCondition(deps, name);
  const name = "apiservice-availability";
  const queue = new WorkQueue({ name, clock, logger, stop, work, retryMaxMs: PROBE_RETRY_MAX_MS });
  const unsubscribe = store.subscribe((changes) => {
    for (const apiServiceName of changes.flatMap((change) => affectedApiServices(deps, change))) {
      queue.add(apiServiceName);
    }
  });
  stop.addEventListener("abort", unsubscribe);
  for (const stored of store.list({ bucket: API_SERVICES_BUCKET })) {
    queue.add(stored.address.name);
  }
  void probePeriodically(deps, stop, (apiServiceName) => {
    queue.add(apiServiceName);
  });
}
