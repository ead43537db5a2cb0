// SPDX-License-Identifier: Apache-2.0
// Leader election. A process without leadership keeps its caches up to date.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { LEASES } from "@patchbay/api";
import type { MetricFamily } from "@patchbay/core/metrics";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, createElector, createFencedStore, waitForCaches } from "@patchbay/kube";
import type { Store } from "@patchbay/core/interfaces";
import type { Flags } from "./config.ts";

/** Name of the Lease. Source: KubeVirt pkg/virt-controller/leaderelectionconfig. */
const LEASE_NAME = "virt-controller";

export interface Leadership {
  /** Store that rejects writes while this process does not lead. */
  readonly store: Store;
  isLeading(): boolean;
  /** Returns the leadership status for `/readyz`. */
  describe(): string;
  /** Resolves when this process becomes the leader. Rejects with `signal.reason` if the signal is aborted first. */
  campaign(signal: AbortSignal): Promise<void>;
  /** Renews the Lease until the signal is aborted. @throws AppError with KUBE_LEASE_LOST if another process leads */
  hold(signal: AbortSignal): Promise<void>;
  /** Releases the Lease. Call it only after all work has ended. */
  release(): Promise<void>;
}

function createStaticLeadership(store: Store): Leadership {
  const resolveAtOnce = (): Promise<void> => Promise.resolve();
  return {
    store,
    isLeading: () => true,
    describe: () => "leader election is disabled",
    campaign: resolveAtOnce,
    hold: resolveAtOnce,
    release: resolveAtOnce,
  };
}

function describeHolder(holder: string | undefined): string {
  return holder === undefined ? "there is no leader" : `${holder} leads`;
}

/** Starts leader election if `--leader-elect` is set. Without the flag, this process always leads. */
export async function createLeadership(
  { client, clock, log, signal }: DaemonContext,
  { leaderElect, leaseNamespace: namespace }: Flags,
): Promise<Leadership> {
  const { store } = client;
  if (!leaderElect) return createStaticLeadership(store);
  const fieldSelector = `metadata.name=${LEASE_NAME}`;
  const leases = createCache(client.reflect(LEASES, { namespace, fieldSelector }), { logger: log });
  leases.start(signal);
  await waitForCaches([leases], signal);
  const identity = `${hostname()}_${randomUUID()}`;
  const key = { namespace, name: LEASE_NAME };
  const elector = createElector({ key, identity, store, leases, clock, log });
  return {
    store: createFencedStore(store, () => elector.remainingWriteMs()),
    isLeading: () => elector.isLeading(),
    describe: () =>
      elector.isLeading() ? `leading as ${identity}` : describeHolder(elector.holder()),
    campaign: (untilSignal) => elector.campaign(untilSignal),
    hold: (untilSignal) => elector.hold(untilSignal),
    release: () => elector.release(),
  };
}

export function leadingFamily(leadership: Pick<Leadership, "isLeading">): MetricFamily {
  return {
    name: "kubevirt_virt_controller_leading_status",
    help: "Whether this virt-controller is the leader (1) or waits (0).",
    type: "gauge",
    samples: [{ labels: {}, value: leadership.isLeading() ? 1 : 0 }],
  };
}
