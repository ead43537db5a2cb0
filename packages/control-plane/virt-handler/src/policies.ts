// SPDX-License-Identifier: Apache-2.0
import {
  MULTI_NETWORK_POLICIES,
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NETWORK_POLICIES,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject, Namespace, NetworkPolicy, Pod } from "@patchbay/api/kubernetes";
import { isEqual, omitUndefined, type Logger } from "@patchbay/base";
import type { Cache, LauncherPod } from "@patchbay/core/interfaces";
import { trimDefinition } from "@patchbay/core/node";
import {
  affectsPolicies,
  ISOLATED,
  NO_NETWORK_POLICIES,
  planPodPolicy,
  toPolicyPod,
  trimPolicyVm,
  type PlannedNetworks,
  type PlannedPolicy,
  type PolicyPod,
} from "@patchbay/core/policies";
import { createCache, type KubeClient, type StartableCache } from "@patchbay/kube";
import { createNetworkPolicies, type NetworkPolicies } from "./multi-policies.ts";

export interface PodPolicies {
  /** Returns the policies of the launcher pod. A pod that is not yet known is isolated if its namespace has policies. */
  find(pod: LauncherPod): PlannedPolicy;
  /** Calls the listener after each change that may affect the policies of a pod. */
  onChange(listener: () => void): void;
}

/** Policies of a VM on the pod network and on secondary networks. */
export interface VmPolicies extends PlannedPolicy {
  /** Unset if no MultiNetworkPolicy selects the VM. */
  readonly networks?: PlannedNetworks;
}

export interface Policies {
  find(vmi: VirtualMachineInstance, pod: LauncherPod): VmPolicies;
  /** Calls the listener after each change that may affect the policies of a VM. */
  onChange(listener: () => void): void;
}

export const NOT_SELECTED: PlannedPolicy = { oversized: [] };

export const NO_POLICIES: Policies = { find: () => NOT_SELECTED, onChange: () => undefined };

interface PolicyCaches {
  /** Policies. The index `namespace` finds the policies of a namespace. */
  readonly policies: Cache<NetworkPolicy>;
  readonly pods: Cache<Pod>;
  readonly namespaces: Cache<Namespace>;
}

/** Drops the fields that policies do not need, to save memory. */
export function trimPod({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  const { name, namespace, uid, resourceVersion, labels } = metadata;
  const containers = spec.containers.map(({ ports = [], ...container }) => ({
    name: container.name,
    image: "",
    ports,
  }));
  const { phase, podIP, podIPs } = status ?? {};
  return {
    apiVersion,
    kind,
    metadata: omitUndefined({ name, namespace, uid, resourceVersion, labels }),
    spec: { ...omitUndefined({ hostNetwork: spec.hostNetwork }), containers },
    status: omitUndefined({ phase, podIP, podIPs }),
  };
}

class CachedPolicies implements PodPolicies {
  readonly #caches: PolicyCaches;
  readonly #exempt: readonly string[];
  readonly #listeners: (() => void)[] = [];
  #pods: readonly PolicyPod[] | undefined;
  /** Cached plans by the pod's UID. All are cleared when a policy, pod or namespace changes in a way that may affect a plan. */
  readonly #planned = new Map<string, PlannedPolicy>();

  constructor(caches: PolicyCaches, exempt: readonly string[]) {
    this.#caches = caches;
    this.#exempt = exempt;
    const { policies, pods, namespaces } = caches;
    pods.onChange((change) => {
      if (!affectsPolicies(change)) return;
      this.#pods = undefined;
      this.#announce();
    });
    namespaces.onChange((change) => {
      const isSame =
        change.kind === "updated" &&
        isEqual(change.previous.metadata.labels, change.current.metadata.labels);
      if (!isSame) this.#announce();
    });
    policies.onChange((change) => {
      const isSame =
        change.kind === "updated" && isEqual(change.previous.spec, change.current.spec);
      if (!isSame) this.#announce();
    });
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  find(launcher: LauncherPod): PlannedPolicy {
    const policies = this.#caches.policies.listBy("namespace", launcher.namespace);
    if (policies.length === 0) return NOT_SELECTED;
    const known = this.#planned.get(launcher.uid);
    if (known !== undefined) return known;
    const planned = this.#plan(launcher, policies);
    this.#planned.set(launcher.uid, planned);
    return planned;
  }

  #plan({ uid }: LauncherPod, policies: readonly NetworkPolicy[]): PlannedPolicy {
    const pods = this.#listPods();
    const pod = pods.find((candidate) => candidate.uid === uid);
    if (pod === undefined) return { ...NOT_SELECTED, policy: ISOLATED };
    const { namespaces } = this.#caches;
    const findNamespaceLabels = (name: string): PolicyPod["labels"] | undefined => {
      const namespace = namespaces.find({ name });
      return namespace && (namespace.metadata.labels ?? {});
    };
    const { policy, oversized } = planPodPolicy({ pod, policies, pods, findNamespaceLabels });
    return policy === undefined
      ? NOT_SELECTED
      : { policy: { ...policy, exempt: this.#exempt }, oversized };
  }

  #listPods(): readonly PolicyPod[] {
    this.#pods ??= this.#caches.pods.list().flatMap((pod) => toPolicyPod(pod) ?? []);
    return this.#pods;
  }

  #announce(): void {
    this.#planned.clear();
    for (const listener of this.#listeners) listener();
  }
}

export function createPodPolicies(caches: PolicyCaches, exempt: readonly string[]): PodPolicies {
  return new CachedPolicies(caches, exempt);
}

interface PolicySources {
  readonly pod?: PodPolicies;
  readonly networks?: NetworkPolicies;
}

export function joinPolicies({ pod: ofPods, networks }: PolicySources): Policies {
  return {
    find: (vmi, pod) => {
      const planned = networks?.find(vmi) ?? NO_NETWORK_POLICIES;
      return {
        ...(ofPods?.find(pod) ?? NOT_SELECTED),
        ...(planned !== NO_NETWORK_POLICIES && { networks: planned }),
      };
    },
    onChange: (listener) => {
      ofPods?.onChange(listener);
      networks?.onChange(listener);
    },
  };
}

/** Kinds of policies that apply to this node's VMs. */
export interface PolicyOptions {
  readonly networkPolicies?: boolean;
  readonly multiNetworkPolicies?: boolean;
  /** Addresses and networks that NetworkPolicies do not restrict. */
  readonly policyExempt?: readonly string[];
}

interface WatchContext {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

type PolicyCacheOptions = Parameters<typeof createCache<NetworkPolicy>>[1];

function listCacheOptions(logger: Logger): PolicyCacheOptions {
  return { indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ""] }, logger };
}

/** Policies with the caches that they use. */
interface Watched<T> {
  readonly policies: T;
  readonly caches: readonly StartableCache<KubeObject>[];
}

function watchPodPolicies(
  { client, log: logger }: WatchContext,
  namespaces: Cache<Namespace>,
  exempt: readonly string[],
): Watched<PodPolicies> {
  const stored = createCache(client.reflect(NETWORK_POLICIES), listCacheOptions(logger));
  const pods = createCache(client.reflect(PODS, { trim: trimPod }), { logger });
  const policies = createPodPolicies({ policies: stored, pods, namespaces }, exempt);
  return { policies, caches: [stored, pods] };
}

function watchNetworkPolicies(
  { client, log: logger }: WatchContext,
  namespaces: Cache<Namespace>,
): Watched<NetworkPolicies> {
  const stored = createCache(
    client.reflect(MULTI_NETWORK_POLICIES, { isOptional: true }),
    listCacheOptions(logger),
  );
  const trimmed = client.reflect(VIRTUAL_MACHINE_INSTANCES, { trim: trimPolicyVm });
  const vmis = createCache(trimmed, { logger });
  const nads = createCache(
    client.reflect(NETWORK_ATTACHMENT_DEFINITIONS, { trim: trimDefinition, isOptional: true }),
    { logger },
  );
  const policies = createNetworkPolicies({ policies: stored, vmis, namespaces, nads });
  return { policies, caches: [stored, vmis, nads] };
}

/** Watches the objects that the policies need until the signal is aborted. Resolves when the first lists are complete. */
export async function watchPolicies(
  { networkPolicies = false, multiNetworkPolicies = false, policyExempt = [] }: PolicyOptions,
  context: WatchContext,
): Promise<Policies | undefined> {
  if (!networkPolicies && !multiNetworkPolicies) return undefined;
  const { client, log: logger, signal } = context;
  const namespaces = createCache(client.reflect(NAMESPACES), { logger });
  const pod = networkPolicies ? watchPodPolicies(context, namespaces, policyExempt) : undefined;
  const networks = multiNetworkPolicies ? watchNetworkPolicies(context, namespaces) : undefined;
  const caches = [namespaces, ...(pod?.caches ?? []), ...(networks?.caches ?? [])];
  for (const cache of caches) cache.start(signal);
  await Promise.all(caches.map((cache) => cache.synced()));
  return joinPolicies({
    ...(pod !== undefined && { pod: pod.policies }),
    ...(networks !== undefined && { networks: networks.policies }),
  });
}
