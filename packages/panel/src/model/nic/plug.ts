// SPDX-License-Identifier: Apache-2.0
import type {
  Iface,
  IfacePhase,
  IfaceStatus,
  Network,
  VirtualMachine,
  VirtualMachineInstance,
  VmiSpec,
} from "@patchbay/api";
import { findEventType } from "@patchbay/core/reasons";
import { toLongText, toShortText } from "../shown.ts";

/** Color of a NIC's state. `off` means that the NIC is plugged at the next start. */
export type Tone = "ready" | "moving" | "waiting" | "failing" | "down" | "off";

export interface Plug {
  readonly name: string;
  /** `namespace/name` of the network; `pod` for the pod network. */
  readonly network: string;
  readonly tone: Tone;
  readonly state: string;
  readonly phase?: IfacePhase;
  readonly reason?: string;
  readonly message?: string;
  readonly since?: string;
  readonly attempts?: number;
  readonly mac?: string;
  readonly addresses: readonly string[];
  readonly pciAddress?: string;
  readonly guestName?: string;
  readonly podNic?: string;
  readonly mtu?: number;
  readonly binding: string;
  readonly model: string;
  readonly isDown: boolean;
  /** Whether the NIC cannot be changed, for example because it is on the pod network. */
  readonly isFixed: boolean;
}

export interface VmObjects {
  readonly vm?: VirtualMachine | undefined;
  readonly vmi?: VirtualMachineInstance | undefined;
}

const BINDINGS = ["bridge", "masquerade", "sriov"] as const;
const POD_KEY = "pod";
const ADDRESSES_MAX = 16;

function findBinding(iface: Iface | undefined): string {
  const plugin = iface?.binding?.name;
  return plugin ?? BINDINGS.find((name) => iface?.[name] !== undefined) ?? "bridge";
}

/** Returns `namespace/name` of the NetworkAttachmentDefinition that a VM in `namespace` references by `name`. */
export function qualifyName(name: string, namespace: string): string {
  return name.includes("/") ? name : `${namespace}/${name}`;
}

function findNetworkKey(network: Network | undefined, namespace: string): string {
  const name = network?.multus?.networkName;
  return name === undefined ? POD_KEY : qualifyName(name, namespace);
}

export const PHASE_LABELS: Readonly<Record<IfacePhase, string>> = {
  Pending: "requested",
  PodAttaching: "joining the network",
  Wiring: "bridge and tap",
  Attaching: "plugging into the guest",
  Ready: "in use",
  PodSwapping: "joining the other network",
  Switching: "switching networks",
  Detaching: "waiting for the guest to detach",
  Unwiring: "deleting the tap",
  PodDetaching: "leaving the network",
};

/** Returns whether the guest has the NIC. A NIC that was present at boot has no phase; its `infoSource` contains `domain`. */
function isInGuest({ hotplug, infoSource }: IfaceStatus): boolean {
  return hotplug?.phase === "Ready" || infoSource?.includes("domain") === true;
}

const IN_USE: Partial<NonNullable<IfaceStatus["hotplug"]>> = { phase: "Ready" };

function findTone(status: IfaceStatus, iface: Iface | undefined): Tone {
  const { hotplug = IN_USE, linkState } = status;
  const { phase, reason } = hotplug;
  if (reason !== undefined && reason !== "")
    return findEventType(reason) === "Warning" ? "failing" : "waiting";
  if (phase !== "Ready" || !isInGuest(status)) return "moving";
  return [iface?.state, linkState].includes("down") ? "down" : "ready";
}

function describeState(tone: Tone, hotplug: IfaceStatus["hotplug"]): string {
  const { reason, phase = "Pending" } = hotplug ?? {};
  switch (tone) {
    case "ready":
      return "in use";
    case "down":
      return "link down";
    case "off":
      return "at next start";
    case "moving":
      return PHASE_LABELS[phase];
    case "waiting":
    case "failing":
      return reason === undefined ? PHASE_LABELS[phase] : toShortText(reason);
  }
}

function omitUnset<T extends object>(values: T): Partial<T> {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined && value !== "");
  return Object.fromEntries(entries) as Partial<T>; // The cast is safe, because all entries are from `values`.
}

function buildHotplugFields({
  phase,
  reason,
  message,
  since,
  attempts,
}: Partial<NonNullable<IfaceStatus["hotplug"]>>): Partial<Plug> {
  return omitUnset({
    phase,
    since,
    attempts,
    reason: toShortText(reason),
    message: toLongText(message),
  });
}

function buildObservedFields(status: IfaceStatus = {}): Partial<Plug> {
  const observed = {
    pciAddress: toShortText(status.pciAddress),
    guestName: toShortText(status.interfaceName),
    podNic: toShortText(status.podInterfaceName),
    mtu: status.mtu,
  };
  // The cast is safe, because omitUnset only drops fields.
  return { ...buildHotplugFields(status.hotplug ?? {}), ...(omitUnset(observed) as Partial<Plug>) };
}

interface Entries {
  readonly iface: Iface | undefined;
  readonly network: Network | undefined;
  readonly status: IfaceStatus | undefined;
}

function buildSpecFields(iface: Iface | undefined): Pick<Plug, "binding" | "model" | "isDown"> {
  const { model = "virtio", state } = iface ?? {};
  return {
    binding: toShortText(findBinding(iface)),
    model: toShortText(model),
    isDown: state === "down",
  };
}

function isFixed(network: Network | undefined): boolean {
  return network?.multus === undefined || network.multus.default === true;
}

function toPlug(
  name: string,
  { iface, network, status }: Entries,
  where: { readonly namespace: string; readonly isLive: boolean },
): Plug {
  const tone = where.isLive ? findTone(status ?? {}, iface) : "off";
  const addresses = status?.ipAddresses ?? [];
  return {
    name,
    network: findNetworkKey(network, where.namespace),
    tone,
    state: describeState(tone, status?.hotplug),
    ...buildObservedFields(status),
    ...omitUnset({ mac: toShortText(status?.mac ?? iface?.macAddress) }),
    addresses: addresses.slice(0, ADDRESSES_MAX).map(toShortText),
    ...buildSpecFields(iface),
    isFixed: isFixed(network),
  };
}

function listSpecs({ vm, vmi }: VmObjects): readonly VmiSpec[] {
  return [vm?.spec.template.spec, vmi?.spec].filter((spec) => spec !== undefined);
}

function find<T extends { readonly name?: string }>(
  list: readonly T[],
  name: string,
): T | undefined {
  return list.find((entry) => entry.name === name);
}

export function isLive(vmi: VirtualMachineInstance | undefined): boolean {
  const phase = vmi?.status?.phase;
  return vmi !== undefined && phase !== "Succeeded" && phase !== "Failed";
}

export function listPlugs(objects: VmObjects): readonly Plug[] {
  const { vm, vmi } = objects;
  const specs = listSpecs(objects);
  const ifaces = specs.flatMap((spec) => spec.domain.devices?.interfaces ?? []);
  const networks = specs.flatMap((spec) => spec.networks ?? []);
  const live = isLive(vmi);
  const statuses = live ? (vmi?.status?.interfaces ?? []) : [];
  const reported = statuses.flatMap(({ name, hotplug }) =>
    name !== undefined && hotplug !== undefined ? [name] : [],
  );
  const names = new Set([...ifaces.map(({ name }) => name), ...reported]);
  const namespace = (vm ?? vmi)?.metadata.namespace ?? "";
  return [...names].map((name) =>
    toPlug(
      name,
      {
        iface: find(ifaces, name),
        network: find(networks, name),
        status: find(statuses, name),
      },
      { namespace, isLive: live },
    ),
  );
}
