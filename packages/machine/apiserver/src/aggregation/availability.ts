// SPDX-License-Identifier: Apache-2.0
// Condition Available of APIServices. Source: Kubernetes kube-aggregator.
import { messageOf } from "@patchbay/core/errors";
import { type Connections, type Peer, printHostPort } from "../backend/connections.ts";
import { type Answer, exchange } from "../backend/exchange.ts";
import {
  type ServiceReference,
  type Unresolved,
  toServiceReference,
} from "../backend/service-address.ts";
import { changeInternally } from "../controllers/internal-writes.ts";
import { WorkQueue } from "../controllers/work-queue.ts";
import {
  type Fields,
  equalJson,
  fieldsOf,
  listOf,
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
  availableCondition,
  isAggregated,
  resolveApiService,
  toPeer,
} from "./api-services.ts";
import { userHeaders } from "./front-proxy.ts";
import type { RemoteDiscovery } from "./remote-discovery.ts";

/** What was found. Source: Kubernetes kube-aggregator, condition Available. */
interface Availability {
  readonly status: "True" | "False";
  readonly reason: "Local" | "Passed" | "FailedDiscoveryCheck" | Unresolved;
  readonly message: string;
}

/** Where a server is found, how it is reached, and where what it says of itself is kept. */
interface ProbeDeps {
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
async function probe(apiService: KubeObject, deps: ProbeDeps): Promise<Availability> {
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

/** How often a server is asked while nothing changes. Source: Kubernetes kube-aggregator. */
const PROBE_EVERY_MS = 30_000;

/** A server that comes back is known so soon: whoever starts servers does not wait for the API server to notice. */
const RETRY_MAX_MS = 1000;

const BACKENDS: ReadonlySet<string> = new Set(["/services", "/endpoints"]);

/** The server's own parts, to write conditions, and those that reach other servers. */
type AvailabilityDeps = VerbDeps & Pick<ProbeDeps, "connections" | "remote">;

function withCondition(apiService: KubeObject, available: Availability, now: string): KubeObject {
  const status = fieldsOf(apiService["status"]);
  const before = availableCondition(apiService);
  const since =
    textAt(before, "status") === available.status ? textAt(before, "lastTransitionTime") : now;
  const others = listOf(status["conditions"]).filter((condition) => condition !== before);
  const condition = { type: "Available", ...available, lastTransitionTime: since };
  apiService["status"] = { ...status, conditions: [...others, condition] };
  return apiService;
}

/** Whether the condition says it already: then nothing is written, and admission is not asked. */
function isSaid(apiService: KubeObject, available: Availability): boolean {
  const said = availableCondition(apiService);
  return Object.entries(available).every(([key, value]) => textAt(said, key) === value);
}

/** Throws where the server did not answer, so that it is asked again soon. */
async function report(deps: AvailabilityDeps, name: string): Promise<void> {
  const address = { bucket: API_SERVICES_BUCKET, namespace: "", name };
  const kind = deps.registry.findByBucket(API_SERVICES_BUCKET);
  const seen = deps.store.find(address)?.view();
  if (kind === undefined || seen === undefined) {
    return;
  }
  const available = await probe(seen, deps);
  if (!isSaid(seen, available)) {
    const at = { kind, address, subresource: "status" };
    await changeInternally(deps, at, (apiService) =>
      equalJson(apiService["spec"], seen["spec"])
        ? withCondition(apiService, available, rfc3339(deps.clock.now()))
        : apiService,
    );
  }
  if (available.reason === "FailedDiscoveryCheck") {
    throw new Error(available.message);
  }
}

/** APIServices that a change may make available or not. */
function concernedBy(deps: VerbDeps, { current, previous }: Change): readonly string[] {
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

/** Adds what another server has, time and again. */
async function repeat(
  deps: VerbDeps,
  stop: AbortSignal,
  add: (name: string) => void,
): Promise<void> {
  while (!stop.aborted) {
    await deps.clock.sleep(PROBE_EVERY_MS, stop).catch(() => undefined);
    for (const stored of deps.store.list({ bucket: API_SERVICES_BUCKET })) {
      if (isAggregated(stored.view())) {
        add(stored.address.name);
      }
    }
  }
}

/** Starts the controller; it follows the store until `stop` is aborted. */
export function startAvailability(deps: AvailabilityDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => report(deps, name);
  const name = "apiservice-availability";
  const queue = new WorkQueue({ name, clock, logger, stop, work, retryMaxMs: RETRY_MAX_MS });
  const unsubscribe = store.subscribe((changes) => {
    for (const concerned of changes.flatMap((change) => concernedBy(deps, change))) {
      queue.add(concerned);
    }
  });
  stop.addEventListener("abort", unsubscribe);
  for (const stored of store.list({ bucket: API_SERVICES_BUCKET })) {
    queue.add(stored.address.name);
  }
  void repeat(deps, stop, (aggregated) => {
    queue.add(aggregated);
  });
}
