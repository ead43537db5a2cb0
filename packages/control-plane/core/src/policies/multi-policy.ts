// SPDX-License-Identifier: Apache-2.0
// Traffic that MultiNetworkPolicies allow to and from a VM's NICs on secondary networks. Source: NPWG multi-networkpolicy.
import {
  isDefaultNetwork,
  isVmiFinal,
  names,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { NetworkPolicy } from "@patchbay/api/kubernetes";
import { parseIp } from "@patchbay/api/values";
import { omitUndefined } from "@patchbay/base";
import { findByName, ifacesOf, networksOf, qualifyName } from "../nics/nics.ts";
import { buildPodLabels, listContainerPorts } from "../vm/pod/selected-fields.ts";
import {
  hasUnmatchedSelectors,
  planPodPolicy,
  type NicPolicy,
  type PolicyFacts,
} from "./pod-policy.ts";
import { isSelectedBy, listNamedPorts, type PolicyPod } from "./policy-pods.ts";

export interface PolicyVm extends Omit<PolicyPod, "addresses"> {
  /** Addresses by network, as NAMESPACE/NAME. */
  readonly addresses: Readonly<Record<string, readonly string[]>>;
}

/**
 * Returns the fields of a VMI that policies evaluate; undefined for a guest that has ended. Takes the addresses from the VMI's status,
 * because users who may edit pods could forge addresses in the pods' annotations.
 */
export function toPolicyVm(vmi: VirtualMachineInstance): PolicyVm | undefined {
  if (isVmiFinal(vmi)) return undefined;
  const { metadata, spec, status } = vmi;
  const { namespace = "", name, uid = "" } = metadata;
  const addresses = new Map<string, readonly string[]>();
  for (const attachment of status?.attachments ?? []) {
    const { networkName, state, ips = [] } = attachment;
    const network = findByName(networksOf(spec), attachment.name);
    if (networkName === undefined || state !== "Attached") continue;
    if (network !== undefined && isDefaultNetwork(network)) continue;
    const valid = ips.filter((ip) => parseIp(ip) !== undefined);
    addresses.set(networkName, [...(addresses.get(networkName) ?? []), ...valid]);
  }
  return {
    namespace,
    name,
    uid,
    labels: buildPodLabels(vmi),
    namedPorts: listNamedPorts(listContainerPorts(vmi)),
    addresses: Object.fromEntries(addresses),
  };
}

/** Drops the fields of a VMI that policies do not need, to save memory. */
export function trimPolicyVm(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { apiVersion, kind, metadata, spec, status } = vmi;
  const { name, namespace, uid, resourceVersion, labels } = metadata;
  const interfaces = ifacesOf(spec).map(({ name: iface, ports }) => ({
    name: iface,
    ...omitUndefined({ ports }),
  }));
  const { phase, attachments } = status ?? {};
  return {
    apiVersion,
    kind,
    metadata: { name, ...omitUndefined({ namespace, uid, resourceVersion, labels }) },
    spec: {
      ...omitUndefined({ networks: spec.networks }),
      domain: { devices: { interfaces } },
    },
    status: omitUndefined({ phase, attachments }),
  };
}

/** CNI plugins that apply MultiNetworkPolicies to VMs themselves. Sources: OVN-Kubernetes, Kube-OVN and Cilium. */
const ENFORCING_PLUGINS: readonly unknown[] = ["ovn-k8s-cni-overlay", "kube-ovn", "cilium-cni"];

/** Returns whether the network's own CNI plugin applies policies, so that Patchbay does not. */
export function appliesPolicies(nad: NetworkAttachmentDefinition | undefined): boolean {
  const config = parseJson(nad?.spec?.config);
  if (!isJsonObject(config)) return false;
  const { plugins } = config;
  return [config, ...(Array.isArray(plugins) ? (plugins as readonly unknown[]) : [])].some(
    (plugin) => isJsonObject(plugin) && ENFORCING_PLUGINS.includes(plugin["type"]),
  );
}

/** Lists the networks of a policy as NAMESPACE/NAME. A name without namespace is in the policy's namespace. */
export function listPolicyNetworks({ metadata }: NetworkPolicy): readonly string[] {
  const text = metadata.annotations?.[names.POLICY_FOR_ANNOTATION] ?? "";
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "")
    .map((name) => qualifyName(name, metadata.namespace ?? ""));
}

interface NetworkPolicyFacts {
  readonly vm: PolicyVm;
  /** MultiNetworkPolicies of the VM's namespace. */
  readonly policies: readonly NetworkPolicy[];
  /** VMs of all namespaces. */
  readonly vms: readonly PolicyVm[];
  readonly findNamespaceLabels: PolicyFacts["findNamespaceLabels"];
  /** Returns whether the network applies policies itself. */
  readonly isGuarded: (network: string) => boolean;
}

interface PolicyOnNetwork {
  readonly policy: string;
  readonly network: string;
}

export interface PlannedNetworks {
  /** Policies of the VM's NICs by network, as NAMESPACE/NAME. */
  readonly policies: Readonly<Record<string, NicPolicy>>;
  /** Policies whose rules exceed a limit. These policies allow nothing. */
  readonly oversized: readonly PolicyOnNetwork[];
  /** Policies with a rule whose selectors match no VM that has an address on the policy's network. */
  readonly unmatched: readonly PolicyOnNetwork[];
}

export const NO_NETWORK_POLICIES: PlannedNetworks = { policies: {}, oversized: [], unmatched: [] };

function toPodOnNetwork({ addresses, ...vm }: PolicyVm, network: string): PolicyPod {
  return { ...vm, addresses: addresses[network] ?? [] };
}

/**
 * Plans the allowed traffic of a VM on each network that a policy names. Peers are address blocks, and VMs with an address on this network.
 * Pods without a VM are no peers, because their authors can write any address into their annotations.
 */
export function planNetworkPolicies(facts: NetworkPolicyFacts): PlannedNetworks {
  const { vm, vms, findNamespaceLabels } = facts;
  const selecting = facts.policies.filter((policy) => isSelectedBy(policy, vm));
  const networks = [...new Set(selecting.flatMap(listPolicyNetworks))].sort();
  const planned = networks
    .filter((network) => !facts.isGuarded(network))
    .map((network) => {
      const policies = selecting.filter((policy) => listPolicyNetworks(policy).includes(network));
      const pods = vms
        .filter(({ addresses }) => network in addresses)
        .map((peer) => toPodOnNetwork(peer, network));
      const pod = toPodOnNetwork(vm, network);
      const podFacts = { pod, policies, pods, findNamespaceLabels };
      const unmatched = policies.filter((policy) => hasUnmatchedSelectors(policy, podFacts));
      return { network, unmatched, ...planPodPolicy(podFacts) };
    });
  if (planned.length === 0) return NO_NETWORK_POLICIES;
  return {
    policies: Object.fromEntries(
      planned.flatMap(({ network, policy }) => (policy === undefined ? [] : [[network, policy]])),
    ),
    oversized: planned.flatMap(({ network, oversized }) =>
      oversized.map((policy) => ({ policy, network })),
    ),
    unmatched: planned.flatMap(({ network, unmatched }) =>
      unmatched.map(({ metadata }) => ({ policy: metadata.name, network })),
    ),
  };
}
