// SPDX-License-Identifier: Apache-2.0
// What do the definitions of networks say of nodes: which devices a pod must ask for, and where NICs cannot be made?
import { names, type NetworkAttachmentDefinition, type NetworkSelection } from "@patchbay/api";

/** Definitions by NAMESPACE/NAME. */
export type Definitions = ReadonlyMap<string, NetworkAttachmentDefinition>;

/** Why a network is not asked for. */
export interface NetworkAbsence {
  readonly reason: "NetworkNotOnNode";
  readonly message: string;
}

/** Networks that cannot be had on a node, by NAMESPACE/NAME. */
export type NetworkAbsences = ReadonlyMap<string, NetworkAbsence>;

/** An extended resource. Source: Kubernetes, "Extended resources": a domain that is not Kubernetes' own, and a name. */
const EXTENDED =
  /^(?!(?:[a-z0-9.-]*\.)?kubernetes\.io\/)[a-z0-9][a-z0-9.-]{0,252}\/[A-Za-z0-9][\w.-]{0,62}$/;
/** Problems that are the node's: another one may have none. The others are the definition's own. */
const OF_NODES: readonly string[] = ["PluginMissing", "NodeLinkUnfit", "VlanUnsupported"];
/** Most nodes that are named. */
const NAMED_MAX = 5;

/** What of a definition is looked at. */
export function seenDefinition(nad: NetworkAttachmentDefinition): NetworkAttachmentDefinition {
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

/** Whether the name is that of an extended resource, such as a device plugin offers or an administrator adds to a node. */
export function isExtendedResource(name: string): boolean {
  return EXTENDED.test(name);
}

/**
 * How many devices of which resource the elements of a pod's annotation need. A resource that no node of `offered` has is left
 * out: a pod that requests it stays Pending, while the network is attached without a device. `offered` is unset while nodes
 * are unknown. Source: KubeVirt, network resources of a VMI.
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

/** Where else, in words; `nodes` are those that answer. */
function sayOthers(told: readonly string[], nodes: readonly string[]): string {
  const others = nodes.filter((node) => !told.includes(node));
  if (others.length === 0) return "no other node is known to have it";
  const more = others.length - NAMED_MAX;
  const named = others.slice(0, NAMED_MAX).join(", ");
  return `${named}${more > 0 ? ` and ${String(more)} more` : ""} ${others.length === 1 ? "has" : "have"} it: a VM that is stopped and started there gets it`;
}

/**
 * The networks that the node has said it cannot make NICs of, for its own reasons. What it said of an older text says
 * nothing. `nodes`: those that answer, sorted.
 */
export function networksNotOn(
  node: string,
  definitions: Definitions,
  nodes: readonly string[],
): NetworkAbsences {
  const absences = new Map<string, NetworkAbsence>();
  for (const [network, { metadata, status }] of definitions) {
    const problems = (status?.problems ?? []).filter(
      ({ generation, reason }) =>
        generation >= (metadata.generation ?? 0) && reason !== "DefinitionTolerated",
    );
    const own = problems.find((problem) => problem.node === node);
    if (own === undefined || !OF_NODES.includes(own.reason)) continue;
    const told = problems.map((problem) => problem.node);
    const message = `node ${node} cannot make interfaces of network ${network}: ${own.message}; ${sayOthers(told, nodes)}`;
    absences.set(network, { reason: "NetworkNotOnNode", message });
  }
  return absences;
}
