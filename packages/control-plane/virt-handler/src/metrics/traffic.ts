// SPDX-License-Identifier: Apache-2.0
// Metrics of the traffic through taps, read from the kernel at each scrape and not from libvirt, which the launcher controls.
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

/** Maximum age of counters that scrapes share, in milliseconds. */
const READING_MAX_AGE_MS = 1_000;

type TrafficDeps = Pick<Deps, "vmis" | "sessions" | "taps" | "nodeName" | "clock" | "log">;

/** Reads the traffic of a guest. @throws AppError with LAUNCHER_UNREACHABLE while the counters cannot be read */
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

/** Returns the traffic; undefined while the launcher is unreachable or the guest does not run. */
async function findTraffic(
  vmi: VirtualMachineInstance,
  counters: LinkCounters,
  deps: TrafficDeps,
): Promise<VmTraffic | undefined> {
  const taps = deps.taps.get(vmi.metadata.uid ?? "");
  const pod = findLauncher(vmi, deps);
  const netns = pod === undefined ? undefined : deps.sessions.netnsOf(pod);
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
  let last:
    | { readonly atMs: number; readonly families: Promise<readonly MetricFamily[]> }
    | undefined;
  const read = async (): Promise<readonly MetricFamily[]> => {
    const vmis = deps.vmis.list();
    const all = await Promise.all(vmis.map((vmi) => findTraffic(vmi, counters, deps)));
    const vms = all.filter((traffic) => traffic !== undefined);
    const running = vmis.filter(({ status }) => status?.phase === "Running");
    return [vmiVnicFamily(running), ...trafficFamilies(vms, deps.nodeName)];
  };
  return () => {
    const nowMs = deps.clock.monotonicMs();
    if (last === undefined || nowMs - last.atMs >= READING_MAX_AGE_MS)
      last = { atMs: nowMs, families: read() };
    return last.families;
  };
}
