// SPDX-License-Identifier: Apache-2.0
import { NAMESPACES, NETWORK_POLICIES, PODS } from "@patchbay/api";
import type { Namespace, NetworkPolicy, Pod } from "@patchbay/api/kubernetes";
import { isEqual, omitUndefined, type Logger } from "@patchbay/base";
import type { Cache, LauncherPod } from "@patchbay/core/interfaces";
import {
  affectsPolicies,
  ISOLATED,
  planPodPolicy,
  toPolicyPod,
  type PlannedPolicy,
  type PolicyPod,
} from "@patchbay/core/policies";
import { createCache, type KubeClient } from "@patchbay/kube";

export interface PodPolicies {
  /** Returns the policies of the launcher pod. A pod that is not yet known is isolated if its namespace has policies. */
  find(pod: LauncherPod): PlannedPolicy;
  /** Calls the listener after each change that may affect the policies of a pod. */
  onChange(listener: () => void): void;
}

export const NOT_SELECTED: PlannedPolicy = { oversized: [] };

export const NO_POLICIES: PodPolicies = { find: () => NOT_SELECTED, onChange: () => undefined };

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

/** Watches policies, pods and namespaces until the signal is aborted. Resolves when the first lists are complete. */
export async function watchPodPolicies(
  client: KubeClient,
  exempt: readonly string[],
  { log: logger, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<PodPolicies> {
  const caches = {
    policies: createCache(client.reflect(NETWORK_POLICIES), {
      indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ""] },
      logger,
    }),
    pods: createCache(client.reflect(PODS, { trim: trimPod }), { logger }),
    namespaces: createCache(client.reflect(NAMESPACES), { logger }),
  };
  const policies = createPodPolicies(caches, exempt);
  for (const cache of Object.values(caches)) cache.start(signal);
  await Promise.all(Object.values(caches).map((cache) => cache.synced()));
  return policies;
}
