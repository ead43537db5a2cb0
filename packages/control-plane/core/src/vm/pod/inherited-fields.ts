// SPDX-License-Identifier: Apache-2.0
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { printNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { readRetainedAddresses } from "../../nics/addresses/retained-addresses.ts";
import { buildMeshAnnotations } from "../../nics/bindings/service-mesh.ts";
import { readRetainedMacs } from "../../nics/mac.ts";
import { buildHostname } from "../spec/guest-names.ts";
import { buildPrimaryAnnotations, findPodNetwork } from "../primary-network.ts";
import { findDefaultNetworkName, planPodNetworks, type NetworksOwner } from "./pod-networks.ts";
import { normalizeAddress } from "../../nics/addresses/resolver.ts";

const EXCLUDED_ANNOTATIONS = [
  "kubectl.kubernetes.io/last-applied-configuration",
  names.PCIE_TOPOLOGY_ANNOTATION,
  names.RETAINED_ADDRESSES_ANNOTATION,
  names.RETAINED_MACS_ANNOTATION,
  names.NETWORKS_ANNOTATION,
  names.NETWORK_STATUS_ANNOTATION,
  names.ATTACHMENT_ERRORS_ANNOTATION,
  names.CNI_GATEWAYS_ANNOTATION,
  names.NETWORK_INFO_ANNOTATION,
];

export function buildPodAnnotations(owner: NetworksOwner): Readonly<Record<string, string>> {
  const { vmi } = owner;
  const retainedAddresses = readRetainedAddresses(vmi);
  const retainedMacs = readRetainedMacs(vmi);
  const elements = planPodNetworks({ ...owner, retainedAddresses, retainedMacs }, []);
  const defaultNetwork = findDefaultNetworkName(vmi);
  const claim = owner.ipamClaims?.get(findPodNetwork(vmi.spec)?.name ?? "");
  const inheritedAnnotations = Object.entries(vmi.metadata.annotations ?? {}).filter(
    ([key]) => !EXCLUDED_ANNOTATIONS.includes(key),
  );
  return {
    ...buildMeshAnnotations(vmi),
    ...Object.fromEntries(inheritedAnnotations),
    [names.DOMAIN_ANNOTATION]: vmi.metadata.name,
    [names.DEFAULT_CONTAINER_ANNOTATION]: names.LAUNCHER_CONTAINER,
    ...(defaultNetwork === undefined ? {} : { [names.DEFAULT_NETWORK_ANNOTATION]: defaultNetwork }),
    ...(claim?.kind === "usable" && buildPrimaryAnnotations(claim)),
    ...(elements.length === 0 ? {} : { [names.NETWORKS_ANNOTATION]: printNetworks(elements) }),
  };
}

type Settings = Pick<
  Pod["spec"],
  | "affinity"
  | "dnsConfig"
  | "dnsPolicy"
  | "hostname"
  | "nodeSelector"
  | "priorityClassName"
  | "schedulerName"
  | "subdomain"
  | "tolerations"
  | "topologySpreadConstraints"
>;

function dropEmpty<T extends object>(members: {
  readonly [K in keyof T]: T[K] | undefined;
}): Partial<T> {
  const entries = Object.entries(members).filter(
    ([, value]) => value !== undefined && value !== "",
  );
  return Object.fromEntries(entries) as Partial<T>;
}

/** Removes leading zeros from addresses of name servers. KubeVirt accepts leading zeros, but the API server rejects them. */
function buildDnsConfig({ dnsConfig }: VirtualMachineInstance["spec"]): Settings["dnsConfig"] {
  if (dnsConfig?.nameservers === undefined) return dnsConfig;
  return { ...dnsConfig, nameservers: dnsConfig.nameservers.map(normalizeAddress) };
}

/** Builds the inherited fields. The pod gets the guest's hostname, so that DNS resolves it in the VMI's subdomain. */
export function buildPodSettings(vmi: VirtualMachineInstance): Settings {
  const { spec } = vmi;
  return dropEmpty<Settings>({
    affinity: spec.affinity,
    dnsConfig: buildDnsConfig(spec),
    dnsPolicy: spec.dnsPolicy,
    hostname: buildHostname(vmi),
    nodeSelector: spec.nodeSelector,
    priorityClassName: spec.priorityClassName,
    schedulerName: spec.schedulerName,
    subdomain: spec.subdomain,
    tolerations: spec.tolerations,
    topologySpreadConstraints: spec.topologySpreadConstraints,
  });
}
