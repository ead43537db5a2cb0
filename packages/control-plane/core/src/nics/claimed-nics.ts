// SPDX-License-Identifier: Apache-2.0
// NICs that are devices of resource claims. Source: Kubernetes resource.k8s.io/v1 AllocatedDeviceStatus.networkData.
import {
  isAbsent,
  type Attachment,
  type Network,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import type {
  AllocatedDevice,
  NetworkDeviceData,
  Pod,
  ResourceClaim,
} from "@patchbay/api/kubernetes";
import { isLinkName, isNicMac, normalizeMac, parseIp } from "@patchbay/api/values";
import { isEqual } from "@patchbay/base";
import {
  claimNotAllocated,
  claimNotHeld,
  deviceNotReported,
  interfaceNameTaken,
  macNotAssigned,
  type ReasonMessage,
} from "../reasons/messages.ts";
import { DEFAULT_POD_INTERFACE, buildPodInterfaceName, isOwnLinkName } from "./names.ts";
import { findByName, ifacesOf, networksOf } from "./nics.ts";

interface ClaimedDevice {
  readonly podInterfaceName: string;
  readonly mac?: string;
  /** Addresses without prefix length. */
  readonly ips: readonly string[];
}

/** Reason why an interface has no device. If `mayFollow` is set, the guest's start waits for the claim's driver to report a device. */
type MissingDevice = ReasonMessage & { readonly mayFollow: boolean };

type ClaimedNic = ClaimedDevice | MissingDevice;

export type ClaimedNics = ReadonlyMap<string, ClaimedNic>;

/** Maximum time after the launcher's start for which the guest's start waits for devices. Drivers usually report them sooner. */
const REPORT_WAIT_MS = 10_000;

type ClaimedNetwork = Network & { readonly resourceClaim: NonNullable<Network["resourceClaim"]> };

function isClaimed(network: Network): network is ClaimedNetwork {
  return network.resourceClaim !== undefined;
}

function isAttachedToRunningGuest({ status }: VirtualMachineInstance, name: string): boolean {
  const isAttached = findByName(status?.attachments, name)?.state === "Attached";
  return isAttached && status?.phase === "Running";
}

/** Lists networks whose device must be read. Omits networks attached to a running guest, because their devices do not change. */
function listNetworksToRead(vmi: VirtualMachineInstance): readonly ClaimedNetwork[] {
  return networksOf(vmi.spec)
    .filter(isClaimed)
    .filter(({ name }) => {
      const iface = findByName(ifacesOf(vmi.spec), name);
      return iface !== undefined && !isAbsent(iface) && !isAttachedToRunningGuest(vmi, name);
    });
}

/** Returns the ResourceClaim's name. Undefined if the pod has no such claim, or if no claim has been created from its template yet. */
function findClaimObject({ spec, status }: Pod, claimName: string): string | undefined {
  const declared = findByName(spec.resourceClaims, claimName);
  if (declared?.resourceClaimName !== undefined) return declared.resourceClaimName;
  return findByName(status?.resourceClaimStatuses, claimName)?.resourceClaimName;
}

/** Lists the names of the ResourceClaims to read. Empty until the launcher runs, because drivers report only devices of running pods. */
export function listResourceClaimNames(vmi: VirtualMachineInstance, pod: Pod): readonly string[] {
  if (pod.status?.phase !== "Running") return [];
  const found = listNetworksToRead(vmi).flatMap(
    ({ resourceClaim }) => findClaimObject(pod, resourceClaim.claimName ?? "") ?? [],
  );
  return [...new Set(found)];
}

function isSameDevice(one: AllocatedDevice, other: AllocatedDevice): boolean {
  return (["driver", "pool", "device", "shareID"] as const).every(
    (field) => one[field] === other[field],
  );
}

function listDevices(claim: ResourceClaim, requestName: string): readonly AllocatedDevice[] {
  const { allocation, devices = [] } = claim.status ?? {};
  const allocated = (allocation?.devices?.results ?? []).filter(
    ({ request }) => request === requestName || request.startsWith(`${requestName}/`),
  );
  return allocated.map((result) => devices.find((each) => isSameDevice(each, result)) ?? result);
}

/** Returns the reported device without invalid values. Returns undefined if its link has no valid name. */
function toClaimedDevice(data: NetworkDeviceData | undefined): ClaimedDevice | undefined {
  const { interfaceName = "", hardwareAddress = "", ips = [] } = data ?? {};
  if (!isLinkName(interfaceName)) return undefined;
  const addresses = ips.map((address) => address.split("/", 1)[0] ?? "");
  return {
    podInterfaceName: interfaceName,
    ...(isNicMac(hardwareAddress) && { mac: normalizeMac(hardwareAddress) }),
    ips: addresses.filter((address) => parseIp(address) !== undefined),
  };
}

function findReportedNic(
  { resourceClaim: { claimName = "", requestName = "" } }: ClaimedNetwork,
  pod: Pod,
  claims: ReadonlyMap<string, ResourceClaim>,
): ClaimedDevice | ReasonMessage {
  if (findByName(pod.spec.resourceClaims, claimName) === undefined) return claimNotHeld(claimName);
  const object = findClaimObject(pod, claimName);
  const claim = object === undefined ? undefined : claims.get(object);
  const devices = claim === undefined ? [] : listDevices(claim, requestName);
  if (devices.length === 0) return claimNotAllocated(object ?? claimName, requestName);
  const [reported] = devices.flatMap(({ networkData }) => toClaimedDevice(networkData) ?? []);
  return reported ?? deviceNotReported(object ?? claimName, devices[0]?.driver ?? "");
}

/** Rejects a device that cannot be the guest's NIC: its link has another use, or its MAC is not the requested MAC. */
function checkDevice(
  network: ClaimedNetwork,
  device: ClaimedDevice,
  { spec, status }: VirtualMachineInstance,
): ClaimedDevice | ReasonMessage {
  const { podInterfaceName, mac } = device;
  const holder = status?.attachments?.find(
    (each) => each.name !== network.name && each.podInterfaceName === podInterfaceName,
  );
  if (holder !== undefined)
    return interfaceNameTaken(podInterfaceName, `interface ${holder.name} of the VM`);
  if (podInterfaceName === DEFAULT_POD_INTERFACE || isOwnLinkName(podInterfaceName))
    return interfaceNameTaken(podInterfaceName, "the pod itself");
  const requested = findByName(ifacesOf(spec), network.name)?.macAddress ?? "";
  const isUnmet = requested !== "" && mac !== undefined && normalizeMac(requested) !== mac;
  const { claimName = "" } = network.resourceClaim;
  return isUnmet ? macNotAssigned(`of claim ${claimName}`, requested, mac) : device;
}

function isMissing<M extends ReasonMessage>(nic: ClaimedDevice | M): nic is M {
  return "reason" in nic;
}

/** Returns the time since the launcher's first container started; 0 if unknown. */
function readRunningMs({ status }: Pod, nowMs: number): number {
  const starts = (status?.containerStatuses ?? []).flatMap(
    ({ state }) => state.running?.startedAt ?? [],
  );
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  const times = starts.map((start) => Date.parse(start)).filter(Number.isFinite);
  return times.length === 0 ? 0 : nowMs - Math.min(...times);
}

export function readClaimedNics(
  vmi: VirtualMachineInstance,
  pod: Pod,
  {
    claims,
    nowMs,
  }: { readonly claims: ReadonlyMap<string, ResourceClaim>; readonly nowMs: number },
): ClaimedNics {
  const isRunning = pod.status?.phase === "Running";
  const mayFollow = !isRunning || readRunningMs(pod, nowMs) < REPORT_WAIT_MS;
  return new Map(
    listNetworksToRead(vmi).map((network) => {
      const found = findReportedNic(network, pod, claims);
      const nic = isMissing(found) ? found : checkDevice(network, found, vmi);
      return [network.name, isMissing(nic) ? { ...nic, mayFollow } : nic];
    }),
  );
}

/** Returns the remaining time until missing devices are reported; undefined if no running launcher waits for a device. */
export function findReportWaitMs(
  nics: ClaimedNics,
  pod: Pod | undefined,
  nowMs: number,
): number | undefined {
  if (pod?.status?.phase !== "Running") return undefined;
  const isAwaited = [...nics.values()].some((nic) => isMissing(nic) && nic.mayFollow);
  return isAwaited ? Math.max(REPORT_WAIT_MS - readRunningMs(pod, nowMs), 0) : undefined;
}

/** Builds the attachment of a device. If `nic` was not observed, returns the previous attachment, or else a requested one. */
export function toClaimedAttachment(
  name: string,
  nic: ClaimedNic | undefined,
  previous?: Attachment,
): Attachment {
  const podInterfaceName = previous?.podInterfaceName ?? buildPodInterfaceName({ name });
  if (nic === undefined) return previous ?? { name, podInterfaceName, state: "Requested" };
  if (isMissing(nic)) {
    const { reason, message, mayFollow } = nic;
    return mayFollow
      ? { name, podInterfaceName, state: "Requested" }
      : { name, podInterfaceName, state: "Failed", reason, message };
  }
  const { mac, ips } = nic;
  return {
    name,
    podInterfaceName: nic.podInterfaceName,
    state: "Attached",
    ...(mac === undefined ? {} : { mac }),
    ...(ips.length === 0 ? {} : { ips: [...ips] }),
  };
}

/** Returns the template's claims that the running VMI has too. Their devices can be plugged, because the launcher holds them. */
export function listHeldClaims(template: VmiSpec, running: VmiSpec): ReadonlySet<string> {
  const held = (template.resourceClaims ?? []).filter((claim) =>
    isEqual(claim, findByName(running.resourceClaims, claim.name)),
  );
  return new Set(held.map(({ name }) => name));
}

const SLOT_PREFIX = "network-slot-";

/** Adds `count` claims to the VM's own claims, for NICs that are plugged later. */
export function withClaimSlots(
  spec: VmiSpec,
  slots: { readonly resourceClaimTemplateName: string; readonly count: number },
): VmiSpec {
  const { resourceClaims = [] } = spec;
  const { count, resourceClaimTemplateName } = slots;
  const names = Array.from(
    { length: count + resourceClaims.length },
    (_slot, index) => `${SLOT_PREFIX}${String(index + 1)}`,
  );
  const added = names
    .filter((name) => findByName(resourceClaims, name) === undefined)
    .slice(0, count)
    .map((name) => ({ name, resourceClaimTemplateName }));
  return { ...spec, resourceClaims: [...resourceClaims, ...added] };
}

/** Removes unused slots, so that the claims of {@link withClaimSlots} do not count as a difference from the template. */
export function withoutUnusedSlots(running: VmiSpec, template: VmiSpec): VmiSpec {
  const { resourceClaims, ...rest } = running;
  if (resourceClaims === undefined) return running;
  const retained = resourceClaims.filter(
    ({ name }) =>
      !name.startsWith(SLOT_PREFIX) || findByName(template.resourceClaims, name) !== undefined,
  );
  const isUnset = retained.length === 0 && template.resourceClaims === undefined;
  return isUnset ? rest : { ...running, resourceClaims: retained };
}
