// SPDX-License-Identifier: Apache-2.0
// What is told of the VMs of this node to whoever asks for metrics: their NICs, and what went through their taps. Read
// from the kernel when it is asked for; libvirt, which is the launcher's, is not asked.
import type { VirtualMachineInstance } from "@patchbay/api";
import {
  AppError,
  messageOf,
  nicCounts,
  trafficFamilies,
  vmiVnicFamily,
  type MetricFamily,
  type VmTraffic,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { LinkCounters } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { launcherOf } from "../reconcilers/vmi/index.ts";

/** A reading serves everybody who asks within this time, milliseconds. */
const FRESH_MS = 1_000;

type TrafficDeps = Pick<Deps, "vmis" | "sessions" | "taps" | "nodeName" | "clock" | "log">;

/** What whoever asks for one guest is told of its NICs. @throws AppError with LAUNCHER_UNREACHABLE while that cannot be read */
export async function tellTraffic(
  vmi: VirtualMachineInstance,
  { linkCounters, ...deps }: TrafficDeps & { readonly linkCounters: LinkCounters },
): Promise<object> {
  const traffic = await trafficOf(vmi, linkCounters, deps);
  if (traffic === undefined) {
    const reason = "the counters of its links cannot be read";
    throw new AppError("LAUNCHER_UNREACHABLE", { vmi: printKey(keyOf(vmi)), reason });
  }
  return { metadata: {}, items: nicCounts(traffic) };
}

/** Undefined while its launcher cannot be reached, or its guest does not run. */
async function trafficOf(
  vmi: VirtualMachineInstance,
  counters: LinkCounters,
  deps: TrafficDeps,
): Promise<VmTraffic | undefined> {
  const taps = deps.taps.get(vmi.metadata.uid ?? "");
  const pod = launcherOf(vmi, deps);
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

/** Reads the metrics of all VMs of the node; who asks again at once gets the same. */
export function createTrafficSource(
  counters: LinkCounters,
  deps: TrafficDeps,
): () => Promise<readonly MetricFamily[]> {
  let last:
    | { readonly atMs: number; readonly families: Promise<readonly MetricFamily[]> }
    | undefined;
  const read = async (): Promise<readonly MetricFamily[]> => {
    const vmis = deps.vmis.list();
    const all = await Promise.all(vmis.map((vmi) => trafficOf(vmi, counters, deps)));
    const vms = all.filter((traffic) => traffic !== undefined);
    const running = vmis.filter(({ status }) => status?.phase === "Running");
    return [vmiVnicFamily(running), ...trafficFamilies(vms, deps.nodeName)];
  };
  return () => {
    const nowMs = deps.clock.monotonicMs();
    if (last === undefined || nowMs - last.atMs >= FRESH_MS)
      last = { atMs: nowMs, families: read() };
    return last.families;
  };
}
