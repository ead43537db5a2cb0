// SPDX-License-Identifier: Apache-2.0
// Condition of a Service on a secondary network: whether clients on other networks get answers from its guests.
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import {
  isJsonObject,
  parseJson,
  type JsonObject,
  type JsonPatchOperation,
} from "@patchbay/api/json";
import type { Service } from "@patchbay/api/kubernetes";
import { withTransitionTimes, type Conditions, type NewCondition } from "../status/conditions.ts";
import { statusPatch, versionTest } from "../status/patch.ts";
import { parseServiceRequest } from "./service-request.ts";

/** Condition type of a Service whose annotations request a network. Source: Kubernetes API conventions, format of condition types. */
const NETWORK_REACHABLE = "patchbay.io/NetworkReachable";

interface ReachFacts {
  readonly definition: NetworkAttachmentDefinition | undefined;
  readonly refusal?: string;
}

/** Finds the plugin that creates the NICs: the first of the list, or the only one. */
function findMainPlugin(definition: NetworkAttachmentDefinition | undefined): JsonObject {
  const config = parseJson(definition?.spec?.config);
  if (!isJsonObject(config)) return {};
  const { plugins } = config;
  const first: unknown = Array.isArray(plugins) ? plugins[0] : config;
  return isJsonObject(first) ? first : {};
}

/** Checks whether the plugin gives the node an address on the network. Source: CNI plugins bridge and ptp. */
function hasNodeAddress({ type, isGateway, isDefaultGateway }: JsonObject): boolean {
  return type === "ptp" || (type === "bridge" && (isGateway === true || isDefaultGateway === true));
}

function describeReach(network: string, { definition, refusal }: ReachFacts): NewCondition {
  const type = NETWORK_REACHABLE;
  if (refusal !== undefined)
    return { type, status: "False", reason: "ServiceNetworkRefused", message: refusal };
  const plugin = findMainPlugin(definition);
  if (hasNodeAddress(plugin)) {
    const message = `the nodes have an address on network ${network}, so guests answer connections of the service proxy; they answer clients whose address the proxy retains only if their route to the client uses this network`;
    return { type, status: "True", reason: "NodeAddress", message };
  }
  const advice =
    plugin["type"] === "bridge"
      ? "set isGateway: true in the definition, or give the nodes an address on the bridge"
      : "give the nodes a route to the network, and the guests a route back";
  const message = `plugin ${String(plugin["type"])} gives the nodes no address on network ${network}, so clients on other networks may get no answer: ${advice}`;
  return { type, status: "Unknown", reason: "NoNodeAddress", message };
}

function readConditions({ status }: Service): Conditions | undefined {
  return status?.conditions && [...status.conditions];
}

/** Returns whether the Service has the condition NetworkReachable, which must be removed if the Service no longer requests a network. */
export function hasReachCondition(service: Pick<Service, "status">): boolean {
  return service.status?.conditions?.some(({ type }) => type === NETWORK_REACHABLE) === true;
}

/** Plans a patch that sets condition NetworkReachable, or removes it if the Service requests no network. Retains other conditions. */
export function planReachCondition(
  service: Service,
  facts: ReachFacts,
  now: string,
): readonly JsonPatchOperation[] {
  const stored = readConditions(service);
  const request = parseServiceRequest(service);
  const network = request.kind === "requested" ? request.request.network : "";
  const own =
    request.kind === "none"
      ? []
      : withTransitionTimes([describeReach(network, facts)], stored, now);
  const others = (stored ?? []).filter(({ type }) => type !== NETWORK_REACHABLE);
  const conditions = [...others, ...own];
  if (conditions.length === 0 && stored === undefined) return [];
  const operations = statusPatch(service, { conditions });
  // A JSON patch cannot test that a list is missing, so this patch tests the resourceVersion instead.
  const isNewList = service.status !== undefined && stored === undefined;
  return isNewList ? [versionTest(service), ...operations] : operations;
}
