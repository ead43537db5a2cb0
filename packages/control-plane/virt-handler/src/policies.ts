// SPDX-License-Identifier: Apache-2.0
import {
  MULTI_NETWORK_POLICIES,
  NAMESPACES,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NETWORK_POLICIES,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject, Namespace, NetworkPolicy, Pod } from "@patchbay/api/kubernetes";
import { isEqual, omitUndefined, type Logger } from "@patchbay/base";
import type { Cache, Change, LauncherPod } from "@patchbay/core/interfaces";
import { trimDefinition } from "@patchbay/core/node";
import {
  affectsPeersOf,
  ALL_NAMESPACES,
  appliesPolicies,
  findPeerNamespace,
  isSelectedBy,
  ISOLATED,
  listNamespaceSelectors,
  matchesLabels,
  NO_NETWORK_POLICIES,
  planNetworkPolicies,
  planPodPolicy,
  toPolicyPod,
  toPolicyVm,
  trimPolicyVm,
  type PlannedNetworks,
  type PlannedPolicy,
  type PolicyPod,
  type PolicyVm,
} from "@patchbay/core/policies";
import { createCache, type KubeClient, type StartableCache } from "@patchbay/kube";

export interface PodPolicies {
  /** Returns the policies of the launcher pod. A pod that is not yet known is isolated if its namespace has policies. */
  find(pod: LauncherPod): PlannedPolicy;
  /** Calls the listener after each change that may affect the policies of a pod. */
  onChange(listener: () => void): void;
}

export interface NetworkPolicies {
  find(vmi: VirtualMachineInstance): PlannedNetworks;
  /** Calls the listener after each change that may affect the policies of a VM. */
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

/** Indexes of the caches of policies. */
export const POLICY_INDEXES: Readonly<
  Record<string, (policy: NetworkPolicy) => readonly string[]>
> = {
  namespace: ({ metadata }) => [metadata.namespace ?? ""],
  peers: (policy) => [findPeerNamespace(policy)],
};

interface PolicyCaches {
  readonly policies: Cache<NetworkPolicy>;
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

/** States of an object before and after a change. */
interface Versions<T> {
  readonly before: T | undefined;
  readonly after: T | undefined;
}

function versionsOf<T extends KubeObject>(change: Change<T>): Versions<T> {
  return {
    before: change.kind === "added" ? undefined : change.previous,
    after: change.kind === "deleted" ? undefined : change.current,
  };
}

function isSamePolicy({ before, after }: Versions<NetworkPolicy>): boolean {
  const [previous, current] = [before, after].map(
    (policy) => policy && [policy.spec, policy.metadata.annotations?.[names.POLICY_FOR_ANNOTATION]],
  );
  return isEqual(previous, current);
}

/** A pod, or a VM on secondary networks. */
type Subject = Omit<PolicyPod, "addresses"> & { readonly addresses: unknown };

/** Facts for a plan, apart from the pod or VM itself. */
interface PlanFacts<S> {
  /** Policies of the subject's namespace. */
  readonly policies: readonly NetworkPolicy[];
  readonly subjects: readonly S[];
  readonly findNamespaceLabels: (name: string) => PolicyPod["labels"] | undefined;
}

/** Plans of pods or VMs. A change drops only the plans that it can affect. */
class Plans<S extends Subject, P> {
  readonly #caches: PolicyCaches;
  readonly #plan: (subject: S, facts: PlanFacts<S>) => P;
  readonly #listeners: (() => void)[] = [];
  readonly #subjects = new Map<string, S>();
  /** Plans by namespace and UID. */
  readonly #planned = new Map<string, Map<string, P>>();

  constructor(caches: PolicyCaches, plan: (subject: S, facts: PlanFacts<S>) => P) {
    this.#caches = caches;
    this.#plan = plan;
    caches.policies.onChange((change) => {
      const { before, after } = versionsOf(change);
      if (isSamePolicy({ before, after })) return;
      for (const policy of [before, after]) if (policy !== undefined) this.#dropSelected(policy);
      this.#announce();
    });
    caches.namespaces.onChange((change) => {
      this.#updateNamespace(versionsOf(change));
    });
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  listPolicies(namespace: string): readonly NetworkPolicy[] {
    return this.#caches.policies.listBy("namespace", namespace);
  }

  /** Returns the plan of the pod or VM. Returns undefined if it is not known yet. */
  find(namespace: string, uid: string): P | undefined {
    const subject = this.#subjects.get(uid);
    if (subject === undefined) return undefined;
    const plans = this.#planned.get(namespace) ?? new Map<string, P>();
    const known = plans.get(uid);
    if (known !== undefined) return known;
    const planned = this.plan(subject);
    this.#planned.set(namespace, plans.set(uid, planned));
    return planned;
  }

  plan(subject: S): P {
    return this.#plan(subject, {
      policies: this.listPolicies(subject.namespace),
      subjects: [...this.#subjects.values()],
      findNamespaceLabels: this.#findLabels,
    });
  }

  update({ before, after }: Versions<S>): void {
    if (isEqual(before, after)) return;
    if (before !== undefined) this.#subjects.delete(before.uid);
    if (after !== undefined) this.#subjects.set(after.uid, after);
    const { namespace = "", uid = "" } = after ?? before ?? {};
    this.#planned.get(namespace)?.delete(uid);
    const affected = [namespace, ALL_NAMESPACES]
      .flatMap((key) => this.#caches.policies.listBy("peers", key))
      .filter((policy) => !isEqual(this.#share(policy, before), this.#share(policy, after)));
    for (const policy of affected) this.#dropSelected(policy);
    if (affected.length > 0 || this.listPolicies(namespace).length > 0) this.#announce();
  }

  clear(): void {
    this.#planned.clear();
    this.#announce();
  }

  readonly #findLabels = (name: string): PolicyPod["labels"] | undefined => {
    const namespace = this.#caches.namespaces.find({ name });
    return namespace && (namespace.metadata.labels ?? {});
  };

  /** Returns the addresses and ports that the pod or VM contributes as a peer. Returns undefined if it is no peer. */
  #share(policy: NetworkPolicy, subject: S | undefined): unknown {
    if (subject === undefined) return undefined;
    const facts = { findNamespaceLabels: this.#findLabels };
    if (!affectsPeersOf(policy, subject, facts)) return undefined;
    return [subject.addresses, subject.namedPorts];
  }

  #updateNamespace({ before, after }: Versions<Namespace>): void {
    const [old, current] = [before, after].map((each) => each && (each.metadata.labels ?? {}));
    if (isEqual(old, current)) return;
    const matching = (policy: NetworkPolicy, labels: PolicyPod["labels"] | undefined) =>
      listNamespaceSelectors(policy).map(
        (selector) => labels !== undefined && matchesLabels(selector, labels),
      );
    const affected = this.#caches.policies
      .listBy("peers", ALL_NAMESPACES)
      .filter((policy) => !isEqual(matching(policy, old), matching(policy, current)));
    for (const policy of affected) this.#dropSelected(policy);
    if (affected.length > 0) this.#announce();
  }

  #dropSelected(policy: NetworkPolicy): void {
    const plans = this.#planned.get(policy.metadata.namespace ?? "");
    for (const uid of plans?.keys() ?? []) {
      const subject = this.#subjects.get(uid);
      if (subject === undefined || isSelectedBy(policy, subject)) plans?.delete(uid);
    }
  }

  #announce(): void {
    for (const listener of this.#listeners) listener();
  }
}

interface PodCaches extends PolicyCaches {
  readonly pods: Cache<Pod>;
}

export function createPodPolicies(caches: PodCaches, exempt: readonly string[]): PodPolicies {
  const plans = new Plans<PolicyPod, PlannedPolicy>(caches, (pod, { subjects: pods, ...facts }) => {
    const { policy, oversized } = planPodPolicy({ pod, pods, ...facts });
    return policy === undefined ? NOT_SELECTED : { policy: { ...policy, exempt }, oversized };
  });
  caches.pods.onChange((change) => {
    const { before, after } = versionsOf(change);
    plans.update({ before: before && toPolicyPod(before), after: after && toPolicyPod(after) });
  });
  return {
    find: ({ namespace, uid }) => {
      if (plans.listPolicies(namespace).length === 0) return NOT_SELECTED;
      return plans.find(namespace, uid) ?? { ...NOT_SELECTED, policy: ISOLATED };
    },
    onChange: (listener) => {
      plans.onChange(listener);
    },
  };
}

interface NetworkPolicyCaches extends PolicyCaches {
  /** VMIs of all nodes. */
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly nads: Cache<NetworkAttachmentDefinition>;
}

export function createNetworkPolicies(caches: NetworkPolicyCaches): NetworkPolicies {
  const isGuarded = (network: string): boolean => {
    const [namespace = "", name = ""] = network.split("/");
    return appliesPolicies(caches.nads.find({ namespace, name }));
  };
  const plans = new Plans<PolicyVm, PlannedNetworks>(caches, (vm, { subjects: vms, ...facts }) =>
    planNetworkPolicies({ vm, vms, isGuarded, ...facts }),
  );
  caches.vmis.onChange((change) => {
    const { before, after } = versionsOf(change);
    plans.update({ before: before && toPolicyVm(before), after: after && toPolicyVm(after) });
  });
  caches.nads.onChange((change) => {
    const { before, after } = versionsOf(change);
    if (appliesPolicies(before) !== appliesPolicies(after)) plans.clear();
  });
  return {
    find: (vmi) => {
      const { namespace = "", uid = "" } = vmi.metadata;
      if (plans.listPolicies(namespace).length === 0) return NO_NETWORK_POLICIES;
      const known = plans.find(namespace, uid);
      if (known !== undefined) return known;
      // The node's own cache of VMIs may be newer than the cache of all VMIs.
      const vm = toPolicyVm(vmi);
      return vm === undefined ? NO_NETWORK_POLICIES : plans.plan(vm);
    },
    onChange: (listener) => {
      plans.onChange(listener);
    },
  };
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
  const stored = createCache(client.reflect(NETWORK_POLICIES), { indexes: POLICY_INDEXES, logger });
  const pods = createCache(client.reflect(PODS, { trim: trimPod }), { logger });
  const policies = createPodPolicies({ policies: stored, pods, namespaces }, exempt);
  return { policies, caches: [stored, pods] };
}

function watchNetworkPolicies(
  { client, log: logger }: WatchContext,
  namespaces: Cache<Namespace>,
): Watched<NetworkPolicies> {
  const stored = createCache(client.reflect(MULTI_NETWORK_POLICIES, { isOptional: true }), {
    indexes: POLICY_INDEXES,
    logger,
  });
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
