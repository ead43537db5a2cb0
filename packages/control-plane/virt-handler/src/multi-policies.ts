// SPDX-License-Identifier: Apache-2.0
// MultiNetworkPolicies of the VMs on this node.
import {
  names,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { Namespace, NetworkPolicy } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import type { Cache, Change } from "@patchbay/core/interfaces";
import {
  affectsNetworkPolicies,
  appliesPolicies,
  NO_NETWORK_POLICIES,
  planNetworkPolicies,
  toPolicyVm,
  type PlannedNetworks,
  type PolicyVm,
} from "@patchbay/core/policies";
import { keyOf } from "@patchbay/kube";

export interface NetworkPolicies {
  find(vmi: VirtualMachineInstance): PlannedNetworks;
  /** Calls the listener after each change that may affect the policies of a VM. */
  onChange(listener: () => void): void;
}

interface NetworkPolicyCaches {
  /** MultiNetworkPolicies. The index `namespace` finds the policies of a namespace. */
  readonly policies: Cache<NetworkPolicy>;
  /** VMIs of all nodes. */
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly namespaces: Cache<Namespace>;
  readonly nads: Cache<NetworkAttachmentDefinition>;
}

function findNetworks({ metadata }: NetworkPolicy): string | undefined {
  return metadata.annotations?.[names.POLICY_FOR_ANNOTATION];
}

function isSamePolicy(change: Change<NetworkPolicy>): boolean {
  if (change.kind !== "updated") return false;
  const { previous, current } = change;
  return isEqual(previous.spec, current.spec) && findNetworks(previous) === findNetworks(current);
}

function isSameGuard(change: Change<NetworkAttachmentDefinition>): boolean {
  const [before, after] = [
    change.kind === "added" ? undefined : change.previous,
    change.kind === "deleted" ? undefined : change.current,
  ];
  return appliesPolicies(before) === appliesPolicies(after);
}

function isSameNamespace(change: Change<Namespace>): boolean {
  return (
    change.kind === "updated" &&
    isEqual(change.previous.metadata.labels, change.current.metadata.labels)
  );
}

class CachedNetworkPolicies implements NetworkPolicies {
  readonly #caches: NetworkPolicyCaches;
  readonly #listeners: (() => void)[] = [];
  #vms: readonly PolicyVm[] | undefined;
  /** Cached plans by the VMI's UID. Each change clears them. */
  readonly #planned = new Map<string, PlannedNetworks>();

  constructor(caches: NetworkPolicyCaches) {
    this.#caches = caches;
    caches.vmis.onChange((change) => {
      if (!affectsNetworkPolicies(change)) return;
      this.#vms = undefined;
      this.#announce();
    });
    caches.namespaces.onChange((change) => {
      if (!isSameNamespace(change)) this.#announce();
    });
    caches.policies.onChange((change) => {
      if (!isSamePolicy(change)) this.#announce();
    });
    caches.nads.onChange((change) => {
      if (!isSameGuard(change)) this.#announce();
    });
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  find(vmi: VirtualMachineInstance): PlannedNetworks {
    const { namespace = "", uid = "" } = vmi.metadata;
    const policies = this.#caches.policies.listBy("namespace", namespace);
    if (policies.length === 0) return NO_NETWORK_POLICIES;
    const known = this.#planned.get(uid);
    if (known !== undefined) return known;
    // `vmi` is from another cache, which may be older than `#caches.vmis`, so a plan for `vmi` is not cached.
    const stored = this.#caches.vmis.find(keyOf(vmi));
    if (stored?.metadata.uid !== uid) return this.#plan(vmi, policies);
    const planned = this.#plan(stored, policies);
    this.#planned.set(uid, planned);
    return planned;
  }

  #plan(vmi: VirtualMachineInstance, policies: readonly NetworkPolicy[]): PlannedNetworks {
    const vm = toPolicyVm(vmi);
    if (vm === undefined) return NO_NETWORK_POLICIES;
    const { namespaces, nads, vmis } = this.#caches;
    this.#vms ??= vmis.list().flatMap((peer) => toPolicyVm(peer) ?? []);
    return planNetworkPolicies({
      vm,
      policies,
      vms: this.#vms,
      findNamespaceLabels: (name) => {
        const namespace = namespaces.find({ name });
        return namespace && (namespace.metadata.labels ?? {});
      },
      isGuarded: (network) => {
        const [namespace = "", name = ""] = network.split("/");
        return appliesPolicies(nads.find({ namespace, name }));
      },
    });
  }

  #announce(): void {
    this.#planned.clear();
    for (const listener of this.#listeners) listener();
  }
}

export function createNetworkPolicies(caches: NetworkPolicyCaches): NetworkPolicies {
  return new CachedNetworkPolicies(caches);
}
