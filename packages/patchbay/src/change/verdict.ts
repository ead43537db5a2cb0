// SPDX-License-Identifier: Apache-2.0
// Is it done, or will it never be while somebody waits? Pure.
import {
  isVmiFinal,
  type Iface,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { findByName, findSyncError, ifacesOf } from "@patchbay/core";
import type { Observation } from "./follow-target.ts";
import { ifaceStage, isIfaceGone, printStage } from "./steps.ts";

/** What a version means to somebody who waits. */
export type Verdict =
  | { readonly kind: "waiting" }
  | { readonly kind: "done" }
  /** The request stands, and comes true later; said in words. */
  | { readonly kind: "later"; readonly note: string }
  /** Waiting is of no use: somebody has to do something first. */
  | { readonly kind: "failing"; readonly reason: string };

type Vmi = VirtualMachineInstance | undefined;
type Seen = Pick<Observation, "vm" | "vmi">;

function ifacesOfVm(vm: VirtualMachine | undefined): readonly Iface[] {
  return vm === undefined ? [] : ifacesOf(vm.spec.template.spec);
}

/** Reasons of the condition Ready that a VMI has on its way up. */
const ON_ITS_WAY: readonly (string | undefined)[] = [
  "GuestNotRunning",
  "ContainerCreating",
  "PodInitializing",
];

/** Done, or still on its way. */
export function doneWhen(isDone: boolean): Verdict {
  return { kind: isDone ? "done" : "waiting" };
}

/** Whether the guest runs. */
export function isGuestRunning(vmi: Vmi): boolean {
  return vmi?.status?.phase === "Running" && vmi.metadata.deletionTimestamp === undefined;
}

/** Why a VMI does not start although somebody waits for it, in words; undefined when it runs or is on its way. */
export function startTrouble(vmi: Vmi): string | undefined {
  if (vmi === undefined || vmi.status?.phase === "Running") return undefined;
  const trouble = (vmi.status?.conditions ?? []).find(
    ({ type, status, reason, message = "" }) =>
      status === "False" &&
      (type === "Synchronized" ||
        (type === "Ready" && (!ON_ITS_WAY.includes(reason) || hasFailure(reason, message)))),
  );
  if (trouble === undefined) return undefined;
  return [trouble.reason, trouble.message].filter((text) => (text ?? "") !== "").join(": ");
}

/** A container that is being created, or waits for init containers, has a message only when that fails. */
function hasFailure(reason: string | undefined, message: string): boolean {
  return (reason === "ContainerCreating" || reason === "PodInitializing") && message !== "";
}

/** What `kubectl get vm` shows of a VM that is well, or on its way. */
const ORDINARY: readonly (string | undefined)[] = [
  undefined,
  "Starting",
  "Running",
  "Stopping",
  "Stopped",
  "Terminating",
];

/** Why a VM does not come up, in its own words; a status of before the last edit says nothing. */
export function vmTrouble(vm: VirtualMachine | undefined): string | undefined {
  const { observedGeneration, printableStatus, conditions } = vm?.status ?? {};
  const isCurrent = observedGeneration === vm?.metadata.generation;
  if (!isCurrent || ORDINARY.includes(printableStatus)) return undefined;
  const syncError = findSyncError(conditions);
  return syncError && `${syncError.reason}: ${syncError.message}`;
}

/** On a start or restart: another guest than the one of `first` runs, unless something stands in its way. */
export function startVerdict({ vm, vmi }: Seen, first: Seen): Verdict {
  const isNew = vmi !== undefined && vmi.metadata.uid !== first.vmi?.metadata.uid;
  if (isNew && isGuestRunning(vmi)) return { kind: "done" };
  const reason = vmTrouble(vm) ?? (isNew ? startTrouble(vmi) : undefined);
  return reason === undefined ? { kind: "waiting" } : { kind: "failing", reason };
}

/** What a VMI that runs no longer, or not for long, means to a plug; undefined while it is there. */
function goneVerdict({ vm, vmi }: Seen, done: string): Verdict | undefined {
  const isOver = vmi === undefined || isVmiFinal(vmi);
  if (!isOver && vmi.metadata.deletionTimestamp === undefined) return undefined;
  const what = isOver ? "has stopped" : "is stopping";
  return vm === undefined
    ? { kind: "failing", reason: `the VMI ${what}` }
    : { kind: "later", note: `the VM ${what}: the interface is ${done} at its next start` };
}

/** What keeps a plug from going on, in words. */
function plugTrouble(iface: string, now: Seen, first: Seen): string | undefined {
  const trouble = startTrouble(now.vmi);
  if (trouble !== undefined) return `the VM does not start: ${trouble}`;
  const stage = ifaceStage(now.vmi, iface);
  if (stage?.reason === undefined) return undefined;
  const hasFailed = ifaceStage(first.vmi, iface)?.reason === stage.reason;
  return hasFailed ? `the interface was already failing: ${printStage(stage)}` : undefined;
}

const IFACES = "spec.template.spec.domain.devices.interfaces";

/** Fields of the VM that take effect at its next start only, as its status says once it knows of the last edit. */
function staged(vm: VirtualMachine | undefined): readonly string[] {
  const { observedGeneration, conditions = [] } = vm?.status ?? {};
  const told = conditions.find(({ type }) => type === "RestartRequired");
  if (observedGeneration !== vm?.metadata.generation || told?.status !== "True") return [];
  const [, fields = ""] = (told.message ?? "").split(": ");
  return fields.split(", ");
}

/** A change of NICs that waits, by the cluster's rollout strategy. */
function stagedVerdict(what: string, fields: readonly string[], { vm }: Seen): Verdict | undefined {
  const waiting = staged(vm);
  if (!fields.some((field) => waiting.includes(field))) return undefined;
  const note = `the interface is ${what} at the VM's next start, as the cluster's vmRolloutStrategy says`;
  return { kind: "later", note };
}

/** On a plug of `iface`; `first` is how it stood before the request. */
export function plugVerdict(iface: string, now: Seen, first: Seen): Verdict {
  const index = ifacesOfVm(now.vm).findIndex(({ name }) => name === iface);
  const later =
    goneVerdict(now, "plugged") ?? stagedVerdict("plugged", [`${IFACES}[${String(index)}]`], now);
  if (later !== undefined) return later;
  const reason = plugTrouble(iface, now, first);
  if (reason !== undefined) return { kind: "failing", reason };
  return doneWhen(ifaceStage(now.vmi, iface)?.phase === "Ready");
}

/** On an unplug of `iface`. */
export function unplugVerdict(iface: string, now: Seen): Verdict {
  if (isIfaceGone(now.vmi, iface)) return { kind: "done" };
  const isKept = ifacesOfVm(now.vm).some(({ name }) => name === iface);
  return (isKept ? undefined : stagedVerdict("unplugged", [IFACES], now)) ?? { kind: "waiting" };
}

/** What an interface is to become. */
export interface WantedSettings {
  /** NAMESPACE/NAME. */
  readonly network?: string;
  readonly link?: "up" | "down";
}

/** Whether the guest's NIC is on that network; a NIC whose network is being swapped has two attachments. */
function isOnNetwork(vmi: Vmi, iface: string, network: string): boolean {
  const status = findByName(vmi?.status?.interfaces, iface);
  const attachment = vmi?.status?.attachments?.find(
    ({ name, networkName }) => name === iface && networkName === network,
  );
  return (
    status?.hotplug?.phase === "Ready" && status.podInterfaceName === attachment?.podInterfaceName
  );
}

/** Paths of what is changed in the VM. */
function settingPaths(
  { network, link }: WantedSettings,
  iface: string,
  vm: VirtualMachine | undefined,
): readonly string[] {
  const spec = vm?.spec.template.spec;
  const indexIn = (list: readonly { readonly name: string }[] = []): string =>
    String(list.findIndex(({ name }) => name === iface));
  const ofLink = `${IFACES}[${indexIn(spec?.domain.devices?.interfaces)}].state`;
  const ofNetwork = `spec.template.spec.networks[${indexIn(spec?.networks)}].multus.networkName`;
  return [...(link === undefined ? [] : [ofLink]), ...(network === undefined ? [] : [ofNetwork])];
}

function hasSettings({ network, link }: WantedSettings, iface: string, vmi: Vmi): boolean {
  const status = findByName(vmi?.status?.interfaces, iface);
  if (link !== undefined && status?.linkState !== link) return false;
  return network === undefined || isOnNetwork(vmi, iface, network);
}

/** On a change of the network and the link of `iface`: what failed before may be what the change repairs. */
export function settingsVerdict(
  { iface, ...wanted }: WantedSettings & { readonly iface: string },
  now: Seen,
): Verdict {
  const paths = settingPaths(wanted, iface, now.vm);
  const later = goneVerdict(now, "changed") ?? stagedVerdict("changed", paths, now);
  if (later !== undefined) return later;
  const trouble = startTrouble(now.vmi);
  if (trouble !== undefined) {
    return { kind: "failing", reason: `the VM does not start: ${trouble}` };
  }
  return doneWhen(hasSettings(wanted, iface, now.vmi));
}

/** On a stop: the VM says that it has stopped, and nothing of its guest is being taken down any more. */
export function stopVerdict({ vm, vmi }: Seen): Verdict {
  const isDown =
    vmi === undefined || (isVmiFinal(vmi) && vmi.metadata.deletionTimestamp === undefined);
  return doneWhen(isDown && (vm === undefined || vm.status?.printableStatus === "Stopped"));
}
