// SPDX-License-Identifier: Apache-2.0
// Finds a namespace's primary network, which its VMs use as pod network, and builds annotations that request its addresses. Sources:
// OVN-Kubernetes, go-controller/pkg/util/multi_network.go; KubeVirt ipam-extensions, pkg/udn and pkg/ipamclaimswebhook/podmutator.go.
import {
  names,
  type Iface,
  type Network,
  type NetworkAttachmentDefinition,
  type VmiSpec,
} from "@patchbay/api";
import { parseNetworks, printNetworks, type NetworkSelection } from "@patchbay/api/annotations";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { Pod } from "@patchbay/api/kubernetes";
import { networksOf } from "../nics/nics.ts";

const PRIMARY_ROLE = "primary";
/** Name of the primary network's NIC in pods. Source: OVN-Kubernetes, go-controller/pkg/cni/udn/primary_network.go. */
export const PRIMARY_POD_INTERFACE = "ovn-udn1";

/** Checks whether the definition is its namespace's primary network. Source: ipam-extensions, FindPrimaryNetwork. */
export function isPrimaryNetwork({ spec }: NetworkAttachmentDefinition): boolean {
  if (spec?.config?.includes(PRIMARY_ROLE) !== true) return false;
  const config = parseJson(spec.config);
  return isJsonObject(config) && config["role"] === PRIMARY_ROLE;
}

/** Finds the namespace's primary network. OVN-Kubernetes accepts only one. If there are several, returns the first by name. */
export function findPrimaryNetwork(
  definitions: Iterable<NetworkAttachmentDefinition>,
  namespace: string,
): NetworkAttachmentDefinition | undefined {
  return [...definitions]
    .filter((nad) => nad.metadata.namespace === namespace && isPrimaryNetwork(nad))
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))[0];
}

export function findPodNetwork(spec: VmiSpec): Network | undefined {
  return networksOf(spec).find(({ pod }) => pod !== undefined);
}

/** Returns the MAC to request for the pod NIC. Undefined with masquerade, because the pod NIC then has a MAC of its own. */
function readPodMac({ macAddress, bridge, binding }: Iface): string | undefined {
  return bridge === undefined && binding === undefined ? undefined : macAddress;
}

/**
 * Builds the element that requests addresses and MAC of the primary network. It names the definition of OVN-Kubernetes' default
 * network (NAMESPACE/NAME), not that of the primary network. Source: OVN-Kubernetes, overrideActiveNSEWithDefaultNSE.
 */
export function buildPrimaryRequest(
  iface: Iface,
  {
    claimName,
    ips,
    defaultNetwork,
  }: {
    readonly claimName: string;
    readonly ips: readonly string[];
    readonly defaultNetwork: string | undefined;
  },
): NetworkSelection | undefined {
  const mac = readPodMac(iface);
  if (defaultNetwork === undefined || (ips.length === 0 && mac === undefined)) return undefined;
  const [namespace = "", name = ""] = defaultNetwork.split("/");
  return {
    name,
    namespace,
    ...(mac !== undefined && { mac }),
    ...(ips.length > 0 && { ips }),
    "ipam-claim-reference": claimName,
  };
}

/** Claim of a launcher's pod network. */
export interface PrimaryClaim {
  readonly name: string;
  /** Request for addresses and MAC. Unset if none are requested. */
  readonly request?: NetworkSelection;
}

export function buildPrimaryAnnotations({
  name,
  request,
}: PrimaryClaim): Readonly<Record<string, string>> {
  return {
    [names.PRIMARY_CLAIM_ANNOTATION]: name,
    ...(request !== undefined && { [names.DEFAULT_NETWORK_ANNOTATION]: printNetworks([request]) }),
  };
}

/** Reads the annotations of {@link buildPrimaryAnnotations}. */
export function readPrimaryClaim(pod: Pod | undefined): PrimaryClaim | undefined {
  const { annotations = {} } = pod?.metadata ?? {};
  const name = annotations[names.PRIMARY_CLAIM_ANNOTATION];
  if (name === undefined) return undefined;
  const parsed = parseNetworks(annotations[names.DEFAULT_NETWORK_ANNOTATION]);
  const request = parsed.ok ? parsed.elements[0] : undefined;
  return { name, ...(request !== undefined && { request }) };
}

/** Removes the request for addresses and MAC of the primary network. ipam-extensions adds its own, and rejects pods with a request. */
export function withoutPrimaryRequest(pod: Pod): Pod {
  if (readPrimaryClaim(pod)?.request === undefined) return pod;
  const annotations = Object.entries(pod.metadata.annotations ?? {}).filter(
    ([key]) => key !== names.DEFAULT_NETWORK_ANNOTATION,
  );
  return { ...pod, metadata: { ...pod.metadata, annotations: Object.fromEntries(annotations) } };
}
