// SPDX-License-Identifier: Apache-2.0
// The minimum of a cluster's controllers for these tests: pods of Deployments and DaemonSets, and Endpoints of
// Services. Uses watches.
import { createHash } from "node:crypto";
import { PODS, type ResourceType } from "@patchbay/api";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import { createCache, createQueue, done, runReconciler, type KubeClient } from "@patchbay/kube";
import { isAppError, type Clock, type Logger } from "@patchbay/base";

const NAMESPACE = "patchbay";
const NAME_LABEL = "app.kubernetes.io/name";
const APPS = { group: "apps", version: "v1", namespaced: true } as const;

interface Limits {
  readonly maxSurge: number;
  readonly maxUnavailable: number;
}

interface Workload extends KubeObject {
  readonly spec: {
    /** Of a Deployment. */
    readonly strategy?: { readonly rollingUpdate: Limits };
    /** Of a DaemonSet. */
    readonly updateStrategy?: { readonly rollingUpdate: Limits };
    /** Of a Deployment. */
    readonly replicas?: number;
    readonly template: {
      readonly metadata: {
        readonly labels: Readonly<Record<string, string>>;
        readonly annotations?: Readonly<Record<string, string>>;
      };
      readonly spec: Pod["spec"];
    };
  };
}

const DEPLOYMENTS: ResourceType<Workload> = {
  ...APPS,
  resource: "deployments",
  kind: "Deployment",
};
const DAEMON_SETS: ResourceType<Workload> = { ...APPS, resource: "daemonsets", kind: "DaemonSet" };
const ENDPOINTS: ResourceType<KubeObject> = {
  group: "",
  version: "v1",
  resource: "endpoints",
  kind: "Endpoints",
  namespaced: true,
};

function limitsOf({ spec, metadata }: Workload): Limits {
  const limits = (spec.strategy ?? spec.updateStrategy)?.rollingUpdate;
  if (limits === undefined) throw new Error(`${metadata.name} has no limits of updates`);
  return limits;
}

function isTerminating({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function isEnded(pod: Pod): boolean {
  const { phase } = pod.status ?? {};
  return isTerminating(pod) || phase === "Failed" || phase === "Succeeded";
}

function isReady({ status }: Pod): boolean {
  return (
    status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true
  );
}

/** Of a pod: the template from which it was made. */
const TEMPLATE_ANNOTATION = "patchbay.test/template";

function printTemplate({ spec }: Workload): string {
  return createHash("sha256").update(JSON.stringify(spec.template)).digest("hex").slice(0, 12);
}

function isOutdated(pod: Pod, workload: Workload): boolean {
  return pod.metadata.annotations?.[TEMPLATE_ANNOTATION] !== printTemplate(workload);
}

/** A workload's pod: a DaemonSet's is assigned to its node, others are bound later. */
function podOf(workload: Workload, nodeName: string, number: number): Pod {
  const { template } = workload.spec;
  const { name, uid = "" } = workload.metadata;
  const owner = { apiVersion: workload.apiVersion, kind: workload.kind, name, uid };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...template.metadata,
      annotations: {
        ...template.metadata.annotations,
        [TEMPLATE_ANNOTATION]: printTemplate(workload),
      },
      name: `${name}-${String(number)}`,
      namespace: NAMESPACE,
      ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }],
    },
    spec: { ...template.spec, ...(workload.kind === "DaemonSet" && { nodeName }) },
  };
}

export interface ControllerDeps {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly nodeName: string;
}

/** Reconciles the pods of each workload in the namespace and virt-api's addresses until the signal is aborted. */
export async function runController(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const { client, clock, log, nodeName } = deps;
  const selection = { namespace: NAMESPACE };
  const pods = createCache(client.reflect(PODS, selection), { logger: log });
  const workloads = [DEPLOYMENTS, DAEMON_SETS].map((type) =>
    createCache(client.reflect(type, selection), { logger: log }),
  );
  const queue = createQueue({ clock });
  let made = 0;
  const keepPod = async (workload: Workload): Promise<void> => {
    const { name } = workload.metadata;
    const labelSelector = `${NAME_LABEL}=${name}`;
    // Lists at the server, because the cache may lack pods that the last run created or deleted.
    const own = (await client.store.list(PODS, { ...selection, labelSelector })).items;
    for (const pod of own.filter(isEnded)) {
      if (!isTerminating(pod)) await client.store.delete(PODS, pod.metadata);
    }
    const alive = own.filter((pod) => !isEnded(pod));
    const replicas = workload.spec.replicas ?? 1;
    const outdated = alive.filter((pod) => isOutdated(pod, workload));
    const { maxSurge, maxUnavailable } = limitsOf(workload);
    const surge = outdated.length > 0 ? Math.min(maxSurge, outdated.length) : 0;
    // Deletes one outdated pod at a time, when the other ready pods suffice.
    const [oldest] = outdated;
    if (oldest !== undefined && alive.filter(isReady).length > replicas - maxUnavailable) {
      await client.store.delete(PODS, oldest.metadata);
      return;
    }
    // A DaemonSet's new pod starts when the old one has ended, because both use the node's files.
    if (workload.kind === "DaemonSet" && own.some(isTerminating)) return;
    const missing = replicas + surge - alive.length;
    for (let count = 0; count < missing; count += 1) {
      made += 1;
      await client.store.create(PODS, podOf(workload, nodeName, made));
    }
  };
  const keepEndpoints = async (): Promise<void> => {
    const addresses = pods
      .list()
      .filter((pod) => pod.metadata.labels?.[NAME_LABEL] === "virt-api")
      .filter((pod) => isReady(pod) && !isEnded(pod))
      .flatMap(({ status }) => (status?.podIP === undefined ? [] : [{ ip: status.podIP }]));
    const ports = [{ name: "https", port: 8443, protocol: "TCP" }];
    const subsets = addresses.length === 0 ? [] : [{ addresses, ports }];
    const metadata = { name: "virt-api", namespace: NAMESPACE };
    const fields = { subsets };
    try {
      await client.store.patch(ENDPOINTS, metadata, { type: "merge", fields });
    } catch (error) {
      if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
      await client.store.create(ENDPOINTS, {
        apiVersion: "v1",
        kind: "Endpoints",
        metadata,
        ...fields,
      });
    }
  };
  const reconcile = async (): Promise<ReturnType<typeof done>> => {
    const all = workloads.flatMap((cache, index) =>
      cache.list().map((one) => ({ ...one, kind: index === 0 ? "Deployment" : "DaemonSet" })),
    );
    for (const workload of all) await keepPod(workload);
    await keepEndpoints();
    return done();
  };
  for (const cache of [pods, ...workloads]) {
    cache.onChange(() => {
      queue.add("all");
    });
    cache.start(signal);
  }
  await Promise.all([pods, ...workloads].map((cache) => cache.synced()));
  queue.add("all");
  await runReconciler({ name: "test-controller", queue, reconcile, log, clock }, signal);
}
