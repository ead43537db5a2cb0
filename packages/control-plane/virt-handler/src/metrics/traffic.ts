// SPDX-License-Identifier: Apache-2.0
// Metrics of the traffic through taps. The counters come from the kernel, because a launcher could forge the counters of its libvirt.
import type { VirtualMachineInstance } from "@patchbay/api";
import { AppError, messageOf } from "@patchbay/base";
import {
  nicCounts,
  trafficFamilies,
  vmiVnicFamily,
  type MetricFamily,
  type VmTraffic,
} from "@patchbay/core/metrics";
import { keyOf, printKey } from "@patchbay/kube";
import type { LinkCounters } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { findLauncher } from "../server/find-guest.ts";

/** Time for which scrapes reuse the same counters, in milliseconds. */
const READING_MAX_AGE_MS = 1_000;

type TrafficDeps = Pick<Deps, "vmis" | "sessions" | "taps" | "nodeName" | "clock" | "log">;

/** Returns the traffic counters of a guest's NICs. @throws AppError with LAUNCHER_UNREACHABLE if the counters cannot be read */
export async function readTraffic(
  vmi: VirtualMachineInstance,
  { linkCounters, ...deps }: TrafficDeps & { readonly linkCounters: LinkCounters },
): Promise<object> {
  const traffic = await findTraffic(vmi, linkCounters, deps);
  if (traffic === undefined) {
    const reason = "the counters of its links cannot be read";
    throw new AppError("LAUNCHER_UNREACHABLE", { vmi: printKey(keyOf(vmi)), reason });
  }
  return { metadata: {}, items: nicCounts(traffic) };
}

/** Returns the traffic, or undefined if the counters cannot be read, for example because the guest does not run. */
async function findTraffic(
  vmi: VirtualMachineInstance,
  counters: LinkCounters,
  deps: TrafficDeps,
): Promise<VmTraffic | undefined> {
  const taps = deps.taps.get(vmi.metadata.uid ?? "");
  const pod = findLauncher(vmi, deps);
  const netns = pod === undefined ? undefined : deps.sessions.findNetns(pod);
  if (taps === undefined || taps.size === 0 || netns === undefined) return undefined;
  try {
    return { vmi, taps, links: await counters.read(netns) };
  } catch (error) {
    deps.log.warn("the counters of a pod's links cannot be read", {
      vmi: printKey(keyOf(vmi)),
      reason: messageOf(error),
    });
    return undefined;
  }
}

export function createTrafficSource(
  counters: LinkCounters,
  deps: TrafficDeps,
): () => Promise<readonly MetricFamily[]> {
  let lastReading:
    | { readonly atMs: number; readonly families: Promise<readonly MetricFamily[]> }
    | undefined;
  const read = async (): Promise<readonly MetricFamily[]> => {
    const vmis = deps.vmis.list();
    const results = await Promise.all(vmis.map((vmi) => findTraffic(vmi, counters, deps)));
    const available = results.filter((traffic) => traffic !== undefined);
    const running = vmis.filter(({ status }) => status?.phase === "Running");
    return [vmiVnicFamily(running), ...trafficFamilies(available, deps.nodeName)];
  };
  return () => {
    const nowMs = deps.clock.monotonicMs();
    if (lastReading === undefined || nowMs - lastReading.atMs >= READING_MAX_AGE_MS)
      lastReading = { atMs: nowMs, families: read() };
    return lastReading.families;
  };
}
