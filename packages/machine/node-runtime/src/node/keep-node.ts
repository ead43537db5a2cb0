// SPDX-License-Identifier: Apache-2.0
// This machine as a node: made when it is not there, its status kept true, its lease renewed.
import { apiVersionOf, NODES, type KubeNode } from "@patchbay/api";
import { covers, isAppError } from "@patchbay/core";
import { after, createQueue, printTime, runReconciler, type LoopWatch } from "@patchbay/kube";
import type { Cache, Clock, Logger, Store } from "@patchbay/core/ports";
import { RENEW_MS, renewLease } from "./lease.ts";
import { readMachine, type MachineIdentity, type MachineSources } from "./machine.ts";
import { isStatusDue, nodeLabelsOf, nodeStatusOf } from "./status.ts";

/** The machine whose node is kept, and the API server as the node's account sees it. */
export interface NodeDeps extends MachineSources {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly nodeName: string;
  readonly identity: MachineIdentity;
  /** Where the API server asks for logs; 0: nowhere. */
  readonly port: number;
  readonly watch?: LoopWatch;
}

/** After a failure the lease must not run out. Source: Kubernetes component-helpers lease, maxBackoff 7 s. */
const BACKOFF = { firstMs: 200, maxMs: 7000, jitter: 0.5 };

/** Makes the node where it is missing; labels that others have set stay. */
async function registerNode(deps: NodeDeps, node: KubeNode): Promise<KubeNode | undefined> {
  try {
    const made = await deps.store.create(NODES, node);
    deps.log.info("node registered", { node: deps.nodeName });
    return made;
  } catch (error) {
    if (isAppError(error, "KUBE_ALREADY_EXISTS")) return undefined; // the watch is about to say so
    throw error;
  }
}

/** The node as it should be; `before` as it is. */
async function reportNode(
  deps: NodeDeps,
  before: KubeNode | undefined,
): Promise<KubeNode | undefined> {
  const { clock, identity, nodeName, port } = deps;
  const nowMs = clock.now();
  const machine = await readMachine(deps);
  const facts = { name: nodeName, identity, machine, port, nowMs, now: printTime(nowMs) };
  const status = nodeStatusOf(before, facts);
  const labels = nodeLabelsOf(nodeName, identity);
  if (before === undefined) {
    const metadata = { name: nodeName, labels };
    return registerNode(deps, {
      apiVersion: apiVersionOf(NODES),
      kind: NODES.kind,
      metadata,
      status,
    });
  }
  const hasLabels = covers(before.metadata.labels, labels);
  if (hasLabels && !isStatusDue(before, status, nowMs)) return before;
  // As a kubelet does, by way of the status: it needs no other right to its node.
  const metadata = { resourceVersion: before.metadata.resourceVersion, labels };
  const patch = { type: "merge", fields: { metadata, status } } as const;
  return deps.store.patch(NODES, { name: nodeName }, patch, { subresource: "status" });
}

/** One heartbeat: status and lease; the next one is due in {@link RENEW_MS}. */
export async function beat(deps: NodeDeps, before: KubeNode | undefined): Promise<void> {
  const node = await reportNode(deps, before);
  if (node !== undefined) await renewLease(deps, node);
}

/** Keeps the node until the signal is aborted. `nodes` is a cache of this node alone. */
export async function keepNode(
  deps: NodeDeps,
  nodes: Cache<KubeNode>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, nodeName } = deps;
  const queue = createQueue({ clock, backoff: BACKOFF });
  const reconcile = async (): Promise<ReturnType<typeof after>> => {
    await beat(deps, nodes.find({ name: nodeName }));
    return after(RENEW_MS);
  };
  queue.addAfter(nodeName, RENEW_MS);
  await runReconciler({ ...deps, name: "node", queue, reconcile }, signal);
}
