// SPDX-License-Identifier: Apache-2.0
// What a launcher asks of its node: what the VM says, and what the launcher takes for itself.
import {
  names,
  parseQuantity,
  type Container,
  type OvercommitConfig,
  type VmiSpec,
} from "@patchbay/api";
import { vcpusOf } from "../../spec/machine.ts";
import { memoryMiBOf, mibOf } from "../../spec/memory.ts";
import { overheadMiBOf, peakMiBOf, type MemoryFacts } from "./launcher-memory.ts";
import { inMi } from "./parts.ts";

/** What a launcher commonly has on disk beside the guest's data. */
const COMMON_DISK_MIB = 16;
/** What resources are computed from, beside the specification. */
export interface ResourceFacts extends MemoryFacts {
  readonly overcommit: OvercommitConfig;
  /** How many devices of which extended resource its networks need. */
  readonly networkResources: ReadonlyMap<string, number>;
  /** Whether its pod is to have a directory of sockets of vhost-user. */
  readonly isForVhostUser: boolean;
}

type Amounts = Readonly<Record<string, string>>;

/** What is computed here; `hugepages-` would come with a guest that has them. */
function isForPod(resource: string): boolean {
  return !["memory", "ephemeral-storage"].includes(resource) && !resource.startsWith("hugepages-");
}

function forPod(amounts: Readonly<Record<string, string | number>> | undefined): Amounts {
  const entries = Object.entries(amounts ?? {}).filter(([resource]) => isForPod(resource));
  return Object.fromEntries(entries.map(([resource, amount]) => [resource, String(amount)]));
}

/** Of each as many as its networks need, or as the VM says itself where that is more: extended resources are not overcommitted. */
function ofNetworks({ domain }: VmiSpec, facts: ResourceFacts): Amounts {
  const { requests = {}, limits = {} } = domain.resources ?? {};
  const sockets = facts.isForVhostUser ? [[names.VHOST_USER_RESOURCE, 1] as const] : [];
  const counts = new Map([...sockets, ...facts.networkResources]);
  const amounts = [...counts].map(([resource, count]) => {
    const said = [requests[resource], limits[resource]].map((amount) => Number(amount ?? 0));
    return [resource, String(Math.max(count, ...said.filter(Number.isInteger)))];
  });
  return Object.fromEntries(amounts) as Amounts; // pairs of texts
}

function devicesOf(spec: VmiSpec, facts: ResourceFacts): Amounts {
  return {
    ...ofNetworks(spec, facts),
    [names.TUN_RESOURCE]: "1",
    ...(facts.useEmulation ? {} : { [names.KVM_RESOURCE]: "1" }),
  };
}

function given(amount: string | number | undefined): number | undefined {
  return amount === undefined || parseQuantity(amount) === undefined ? undefined : mibOf(amount);
}

/** What is requested of memory may be less than the guest's: overcommitted by who says so. Source: KubeVirt. */
function memoryOf(
  { domain }: VmiSpec,
  overheadMiB: number,
  facts: ResourceFacts,
): { readonly request: string; readonly limit: string } {
  const { requests, limits, overcommitGuestOverhead } = domain.resources ?? {};
  const guestMiB = memoryMiBOf(domain);
  const { memoryPercent } = facts.overcommit;
  const asked = given(requests?.["memory"]) ?? Math.floor((guestMiB * 100) / memoryPercent);
  const most = given(limits?.["memory"]) ?? Math.max(asked, guestMiB);
  return {
    request: inMi(asked + (overcommitGuestOverhead === true ? 0 : overheadMiB)),
    limit: inMi(most + overheadMiB + peakMiBOf(facts)),
  };
}

function cpuRequest({ domain }: VmiSpec, { overcommit }: ResourceFacts): Amounts {
  const { requests, limits } = domain.resources ?? {};
  // Kubernetes requests what is the limit where nothing else is said.
  if (requests?.["cpu"] !== undefined || limits?.["cpu"] !== undefined) return {};
  return { cpu: `${String(Math.ceil((vcpusOf(domain) * 1000) / overcommit.cpuRatio))}m` };
}

/** Most that a launcher takes on the node's disk, MiB. */
export interface DiskUse {
  /** Sockets, logs, files of libvirt. */
  readonly ownMiB: number;
  /** What is made and copied for the guest, where the VM does not say. */
  readonly guestMiB: number;
}

/** Of the launcher's container. */
export function launcherResourcesOf(
  spec: VmiSpec,
  facts: ResourceFacts,
  disk: DiskUse,
): NonNullable<Container["resources"]> {
  const memory = memoryOf(spec, overheadMiBOf(spec, facts), facts);
  const { requests, limits } = spec.domain.resources ?? {};
  const devices = devicesOf(spec, facts);
  const leastDiskMiB = COMMON_DISK_MIB + (given(requests?.["ephemeral-storage"]) ?? 0);
  const mostDiskMiB = disk.ownMiB + (given(limits?.["ephemeral-storage"]) ?? disk.guestMiB);
  return {
    requests: {
      ...cpuRequest(spec, facts),
      ...forPod(requests),
      memory: memory.request,
      "ephemeral-storage": inMi(leastDiskMiB),
      ...devices,
    },
    limits: {
      ...forPod(limits),
      memory: memory.limit,
      "ephemeral-storage": inMi(Math.max(leastDiskMiB, mostDiskMiB)),
      ...devices,
    },
  };
}
