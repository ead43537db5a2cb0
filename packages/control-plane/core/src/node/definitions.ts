// SPDX-License-Identifier: Apache-2.0
// Devices that pods request for NetworkAttachmentDefinitions, and networks that a node cannot provide.
import { names, type NetworkAttachmentDefinition } from "@patchbay/api";
import type { NetworkSelection } from "@patchbay/api/annotations";

export type Definitions = ReadonlyMap<string, NetworkAttachmentDefinition>;

export interface UnavailableNetwork {
  readonly reason: "NetworkNotOnNode";
  readonly message: string;
}

/** Networks that a node cannot provide, by NAMESPACE/NAME. */
export type UnavailableNetworks = ReadonlyMap<string, UnavailableNetwork>;

/** Extended resource name: a domain outside kubernetes.io, a slash and a name. Source: Kubernetes, "Extended resources". */
const EXTENDED_RESOURCE =
  /^(?!(?:[a-z0-9.-]*\.)?kubernetes\.io\/)[a-z0-9][a-z0-9.-]{0,252}\/[A-Za-z0-9][\w.-]{0,62}$/;
/** Reasons of problems that concern a single node. All other reasons concern the definition and therefore every node. */
const NODE_PROBLEMS: readonly string[] = ["PluginMissing", "NodeLinkUnfit", "VlanUnsupported"];
const NAMED_NODES_MAX = 5;

/** Removes all fields of a definition that Patchbay's components do not read, so that caches stay small. */
export function trimDefinition(nad: NetworkAttachmentDefinition): NetworkAttachmentDefinition {
  const { name, namespace, uid, resourceVersion, generation, annotations } = nad.metadata;
  const resource = annotations?.[names.RESOURCE_NAME_ANNOTATION];
  return {
    apiVersion: nad.apiVersion,
    kind: nad.kind,
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(generation !== undefined && { generation }),
      ...(resource !== undefined && {
        annotations: { [names.RESOURCE_NAME_ANNOTATION]: resource },
      }),
    },
    ...(nad.spec !== undefined && { spec: nad.spec }),
    ...(nad.status !== undefined && { status: nad.status }),
  };
}

export function isExtendedResource(name: string): boolean {
  return EXTENDED_RESOURCE.test(name);
}

/**
 * Counts the devices that a pod's networks need, by resource. Omits resources that no node offers, because a pod that requests them would
 * stay Pending. Until nodes are known, `offered` is undefined and no resource is omitted. Source: KubeVirt, network resources of a VMI.
 */
export function networkResources(
  elements: readonly NetworkSelection[],
  definitions: Definitions,
  offered?: ReadonlySet<string>,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { namespace = "", name } of elements) {
    const annotations = definitions.get(`${namespace}/${name}`)?.metadata.annotations;
    const resource = annotations?.[names.RESOURCE_NAME_ANNOTATION] ?? "";
    const isOffered = offered === undefined || offered.has(resource);
    if (isExtendedResource(resource) && isOffered)
      counts.set(resource, (counts.get(resource) ?? 0) + 1);
  }
  return counts;
}

/** Describes which of the reachable `nodes` did not report the problem. */
function describeOtherNodes(reportingNodes: readonly string[], nodes: readonly string[]): string {
  const otherNodes = nodes.filter((node) => !reportingNodes.includes(node));
  if (otherNodes.length === 0) return "no other node is known to have it";
  const unlistedCount = otherNodes.length - NAMED_NODES_MAX;
  const listedNodes = otherNodes.slice(0, NAMED_NODES_MAX).join(", ");
  return `${listedNodes}${unlistedCount > 0 ? ` and ${String(unlistedCount)} more` : ""} ${otherNodes.length === 1 ? "has" : "have"} it: a VM that is stopped and started there gets it`;
}

/** Returns the networks that the node cannot provide. Each message names the reachable nodes (of `nodes`) that provide the network. */
export function findUnavailableNetworks(
  node: string,
  definitions: Definitions,
  nodes: readonly string[],
): UnavailableNetworks {
  const unavailable = new Map<string, UnavailableNetwork>();
  for (const [network, { metadata, status }] of definitions) {
    const problems = (status?.problems ?? []).filter(
      ({ generation, reason }) =>
        generation >= (metadata.generation ?? 0) && NODE_PROBLEMS.includes(reason),
    );
    const nodeProblem = problems.find((problem) => problem.node === node);
    if (nodeProblem === undefined) continue;
    const reportingNodes = problems.map((problem) => problem.node);
    const message = `node ${node} cannot make interfaces of network ${network}: ${nodeProblem.message}; ${describeOtherNodes(reportingNodes, nodes)}`;
    unavailable.set(network, { reason: "NetworkNotOnNode", message });
  }
  return unavailable;
}
