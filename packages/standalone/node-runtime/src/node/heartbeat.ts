// SPDX-License-Identifier: Apache-2.0
import { apiVersionOf, LEASES, NODES } from "@patchbay/api";
import type { KubeNode, Lease } from "@patchbay/api/kubernetes";
import { isAppError, covers, type Clock, type Logger } from "@patchbay/base";
import {
  printMicroTime,
  after,
  createQueue,
  printTime,
  runReconciler,
  type LoopWatch,
} from "@patchbay/kube";
import type { Store, Cache } from "@patchbay/core/interfaces";
import { readMachine, type MachineIdentity, type MachineSources } from "./machine.ts";
import { isStatusDue, buildNodeLabels, buildNodeStatus } from "./status.ts";

/** Source: nodeLeaseDurationSeconds of the kubelet. */
const LEASE_DURATION_SECONDS = 40;
/** Source: NamespaceNodeLease of Kubernetes' core/v1. */
const LEASE_NAMESPACE = "kube-node-lease";
/** Interval of lease renewals, a quarter of the lease's duration. Source: kubelet. */
export const LEASE_RENEW_INTERVAL_MS = 10_000;

async function renewLease({ store, clock, leaseAge }: NodeDeps, node: KubeNode): Promise<void> {
  const { name, uid = "" } = node.metadata;
  const key = { namespace: LEASE_NAMESPACE, name };
  const spec = {
    holderIdentity: name,
    leaseDurationSeconds: LEASE_DURATION_SECONDS,
    renewTime: printMicroTime(clock.now()),
  };
  try {
    await store.patch(LEASES, key, { type: "merge", fields: { spec } });
  } catch (error) {
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    const owner = { apiVersion: node.apiVersion, kind: node.kind, name, uid };
    const lease: Lease = {
      apiVersion: apiVersionOf(LEASES),
      kind: LEASES.kind,
      metadata: { ...key, ownerReferences: [owner] },
      spec,
    };
    await store.create(LEASES, lease);
  }
  leaseAge.recordRenewal();
}

export class LeaseAge {
  readonly #clock: Clock;
  #renewedMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  recordRenewal(): void {
    this.#renewedMs = this.#clock.monotonicMs();
  }

  print(): string {
    if (this.#renewedMs === undefined) return "the Lease has not been renewed yet";
    const seconds = Math.floor((this.#clock.monotonicMs() - this.#renewedMs) / 1000);
    return `the Lease was renewed ${String(seconds)} s ago`;
  }
}

export interface NodeDeps extends MachineSources {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly nodeName: string;
  readonly identity: MachineIdentity;
  /** Port of the kubelet API; 0 if the API is not served. */
  readonly port: number;
  readonly leaseAge: LeaseAge;
  readonly watches?: Readonly<Record<"node" | "lease", LoopWatch>>;
}

/** Retry delays, short enough for several attempts before the lease expires. Source: maxBackoff of Kubernetes' lease code. */
const HEARTBEAT_BACKOFF = { firstMs: 200, maxMs: 7000, jitter: 0.5 };

async function registerNode(deps: NodeDeps, node: KubeNode): Promise<KubeNode | undefined> {
  try {
    const created = await deps.store.create(NODES, node);
    deps.log.info("node registered", { node: deps.nodeName });
    return created;
  } catch (error) {
    if (isAppError(error, "KUBE_ALREADY_EXISTS")) return undefined;
    throw error;
  }
}

/** Creates the Node object, or updates its status and labels if an update is due. Preserves labels that other clients set. */
async function reportNode(
  deps: NodeDeps,
  previous: KubeNode | undefined,
): Promise<KubeNode | undefined> {
  const { clock, identity, nodeName, port } = deps;
  const nowMs = clock.now();
  const machine = await readMachine(deps);
  const facts = { name: nodeName, identity, machine, port, nowMs, now: printTime(nowMs) };
  const status = buildNodeStatus(previous, facts);
  const labels = buildNodeLabels(nodeName, identity);
  if (previous === undefined) {
    const metadata = { name: nodeName, labels };
    return registerNode(deps, {
      apiVersion: apiVersionOf(NODES),
      kind: NODES.kind,
      metadata,
      status,
    });
  }
  const hasLabels = covers(previous.metadata.labels, labels);
  if (hasLabels && !isStatusDue(previous, status, nowMs)) return previous;
  // The node's account may write only the subresource `status`, through which a kubelet also updates its node's labels.
  const metadata = { resourceVersion: previous.metadata.resourceVersion, labels };
  const patch = { type: "merge", fields: { metadata, status } } as const;
  return deps.store.patch(NODES, { name: nodeName }, patch, { subresource: "status" });
}

export async function sendHeartbeat(deps: NodeDeps, previous: KubeNode | undefined): Promise<void> {
  const node = await reportNode(deps, previous);
  if (node !== undefined) await renewLease(deps, node);
}

/** Sends heartbeats. The Lease has its own loop, so that slow reads of the machine's state delay no renewal. `nodes` contains only this node. */
export async function runHeartbeat(
  deps: NodeDeps,
  nodes: Cache<KubeNode>,
  signal: AbortSignal,
): Promise<void> {
  const { nodeName } = deps;
  const runLoop = async (name: "node" | "lease", beat: () => Promise<void>): Promise<void> => {
    const { clock, log, watches } = deps;
    const queue = createQueue({ clock, backoff: HEARTBEAT_BACKOFF });
    const reconcile = async (): Promise<ReturnType<typeof after>> => {
      await beat();
      return after(LEASE_RENEW_INTERVAL_MS);
    };
    queue.addAfter(nodeName, LEASE_RENEW_INTERVAL_MS);
    const watch = watches && { watch: watches[name] };
    await runReconciler({ name, queue, reconcile, log, clock, ...watch }, signal);
  };
  await Promise.all([
    runLoop("node", async () => {
      const node = nodes.find({ name: nodeName });
      if (node === undefined) await sendHeartbeat(deps, undefined);
      else await reportNode(deps, node);
    }),
    runLoop("lease", async () => {
      const node = nodes.find({ name: nodeName });
      if (node !== undefined) await renewLease(deps, node);
    }),
  ]);
}
