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

/** An extended resource: a domain outside kubernetes.io, and a name. Source: Kubernetes, "Extended resources". */
const EXTENDED_RESOURCE =
  /^(?!(?:[a-z0-9.-]*\.)?kubernetes\.io\/)[a-z0-9][a-z0-9.-]{0,252}\/[A-Za-z0-9][\w.-]{0,62}$/;
/** Reasons of problems that concern one node. Other reasons concern the definition, so they apply to all nodes. */
const NODE_PROBLEMS: readonly string[] = ["PluginMissing", "NodeLinkUnfit", "VlanUnsupported"];
const NAMED_NODES_MAX = 5;

/** Trims a definition to the fields that core reads. */
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
 * Counts the devices that a pod's networks need, by resource. Omits resources that no node offers: a pod that requests
 * one would stay Pending, while CNI can attach the network without a device. `offered` has the resources of all nodes,
 * and is unset while nodes are unknown. Source: KubeVirt, network resources of a VMI.
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

/** Describes which of the reachable `nodes` have not reported the problem. */
function describeOtherNodes(reported: readonly string[], nodes: readonly string[]): string {
  const others = nodes.filter((node) => !reported.includes(node));
  if (others.length === 0) return "no other node is known to have it";
  const more = others.length - NAMED_NODES_MAX;
  const named = others.slice(0, NAMED_NODES_MAX).join(", ");
  return `${named}${more > 0 ? ` and ${String(more)} more` : ""} ${others.length === 1 ? "has" : "have"} it: a VM that is stopped and started there gets it`;
}

/**
 * Returns the networks that the node cannot provide because of a problem that it has reported. Ignores reports about an
 * older generation. `nodes` are the reachable nodes, sorted.
 */
export function findUnavailableNetworks(
  node: string,
  definitions: Definitions,
  nodes: readonly string[],
): UnavailableNetworks {
  const unavailable = new Map<string, UnavailableNetwork>();
  for (const [network, { metadata, status }] of definitions) {
    const problems = (status?.problems ?? []).filter(
      ({ generation, reason }) =>
        generation >= (metadata.generation ?? 0) && reason !== "DefinitionTolerated",
    );
    const own = problems.find((problem) => problem.node === node);
    if (own === undefined || !NODE_PROBLEMS.includes(own.reason)) continue;
    const reported = problems.map((problem) => problem.node);
    const message = `node ${node} cannot make interfaces of network ${network}: ${own.message}; ${describeOtherNodes(reported, nodes)}`;
    unavailable.set(network, { reason: "NetworkNotOnNode", message });
  }
  return unavailable;
}
