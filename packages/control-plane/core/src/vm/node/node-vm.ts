// SPDX-License-Identifier: Apache-2.0
// virt-handler's actions for one VMI: start its domain, plug and unplug its NICs.
import {
  names,
  type GuestOsInfo,
  type IfacePhase,
  type IfaceStatus,
  type NetworkConfig,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { printDomain, printNic, type DomainFacts } from "@patchbay/domain";
import type { DnsSettings } from "../../nics/addresses/resolver.ts";
import { buildServedNics, type ServedNic } from "../../nics/addresses/served-nic.ts";
import {
  toRemovableWiring,
  type RemovableWiring,
  type PodWiring,
} from "../../nics/bindings/pod-wiring.ts";
import { isEqual } from "@patchbay/base";
import type { LinkView } from "../../guest/agent-view.ts";
import type { IfaceFacts } from "../../nics/facts.ts";
import { toAlias } from "../../nics/names.ts";
import { isWanted, mustReleaseDevice, decidePhase } from "../../nics/phase.ts";
import {
  isMadeByHook,
  buildLease,
  findBindingModule,
  toSwappedFacts,
  buildWiring,
  planLinkSocket,
  findVhostUserBlock,
  computeUnplugRetryMs,
  buildLiveNic,
  buildNicDefinition,
  planLeftoverBridge,
  planSwapNetwork,
  type LinkSocketAction,
  type VhostUserBlock,
  type UnplugRequest,
  type RemoveBridgeAction,
  type SwapAction,
} from "../../nics/node-plan.ts";
import {
  planLivePlacements,
  type NicPlacement,
  type PlacementProblem,
} from "../../nics/pcie/ports.ts";
import { countQueues } from "../../nics/pcie/topology.ts";
import { planDomain } from "../domain/domain.ts";
import { openMigration, type NodeRole } from "../../migration/owner.ts";
import { hasRun } from "../../node/node-loss.ts";
import { findByName } from "../../nics/nics.ts";

/** An action of virt-handler. Actions run in order and may be repeated. */
export type NodeAction =
  | { readonly kind: "wireTap"; readonly iface: string; readonly wiring: PodWiring }
  | LinkSocketAction
  /** Records the pod NIC's addresses before wiring removes them. */
  | {
      readonly kind: "rememberAddresses";
      readonly iface: string;
      readonly podInterfaceName: string;
    }
  | { readonly kind: "serveAddresses"; readonly nic: ServedNic }
  | { readonly kind: "stopServing"; readonly bridgeName: string }
  | { readonly kind: "defineDomain"; readonly xml: string }
  | { readonly kind: "startDomain"; readonly paused?: true }
  /** Resumes a guest that stayed paused because its migration failed in the last phase. */
  | { readonly kind: "resumeDomain" }
  | { readonly kind: "attachDevice"; readonly iface: string; readonly xml: string }
  | { readonly kind: "detachDevice"; readonly iface: string; readonly alias: string }
  | SwapAction
  | RemoveBridgeAction
  /** `xml` is the existing device with the wanted link state. */
  | { readonly kind: "setLink"; readonly iface: string; readonly xml: string }
  | {
      readonly kind: "unwireTap";
      readonly iface: string;
      readonly wiring: RemovableWiring;
    }
  /** Writes the status before the next actions, because virt-controller needs it. If the write is deferred, they are skipped. */
  | { readonly kind: "report" }
  | { readonly kind: "sweepLinks"; readonly wiring: RemovableWiring }
  | {
      readonly kind: "wait";
      readonly iface: string;
      readonly reason: WaitReason;
      readonly forMs?: number;
    };

/** Why an interface waits. `blockedReasonOfWait` maps it to `hotplug.reason`. */
export type WaitReason =
  | PlacementProblem
  | VhostUserBlock
  | "GuestRefused"
  | "TapReplaced"
  | "TapLost"
  | "PodInterfaceMissing"
  | "WaitingForMigration";

export interface DomainSnapshot {
  readonly running: boolean;
  /** Whether the domain is paused. `running` is true then as well. */
  readonly isPaused: boolean;
  /** Whether a disk error paused the domain. Unset if it was paused on request. */
  readonly hasDiskError?: true;
  /** Whether the QEMU process died, here or on the migration target. */
  readonly crashed: boolean;
  /** Whether the domain is paused in the last phase of an outgoing migration. */
  readonly isMigratingOut?: true;
  readonly facts: DomainFacts;
}

export interface NodeVmFacts {
  readonly vmi: VirtualMachineInstance;
  readonly role: NodeRole;
  readonly ifaces: readonly IfaceFacts[];
  readonly domain: DomainSnapshot | undefined;
  readonly useEmulation: boolean;
  readonly network: NetworkConfig;
  readonly uuid: string;
  readonly orphanedWirings?: readonly RemovableWiring[];
  readonly unplugRequests: Readonly<Record<string, UnplugRequest | undefined>>;
  readonly guestLinks?: readonly LinkView[];
  /** Time since when the guest agent has not answered (RFC 3339). Unset if it answers or never has. */
  readonly silentSince?: string;
  readonly guestSystem?: GuestOsInfo;
  readonly served?: readonly ServedNic[];
  readonly dns?: DnsSettings;
}

export function planWiring(
  { vmi, network }: NodeVmFacts,
  iface: IfaceFacts,
): PodWiring | undefined {
  const observed = buildWiring(iface);
  if (observed === undefined || observed.kind === "tap") return observed;
  const queues = countQueues(vmi.spec, iface.iface, network);
  return { ...observed, owner: names.LAUNCHER_UID, queues };
}

function isSupported({ binding }: IfaceFacts): boolean {
  return binding.kind !== "refused";
}

/** Whether Patchbay, not a hook, creates the device. */
function hasOwnDevice(facts: IfaceFacts): boolean {
  return isSupported(facts) && !isMadeByHook(facts);
}

function isAttached(facts: IfaceFacts): boolean {
  return isWanted(facts) && isSupported(facts) && facts.attachment?.state === "Attached";
}

function isWirable(facts: IfaceFacts): boolean {
  return isAttached(facts) && facts.links.podInterface;
}

function planWire(facts: NodeVmFacts, iface: IfaceFacts): NodeAction {
  const { name } = iface;
  const reason = findVhostUserBlock(iface, facts);
  if (reason !== undefined) return { kind: "wait", iface: name, reason };
  if (!iface.links.podInterface)
    return { kind: "wait", iface: name, reason: "PodInterfaceMissing" };
  const wiring = planWiring(facts, iface);
  if (wiring === undefined) return planLinkSocket(iface);
  return planRecordAddresses(iface) ?? { kind: "wireTap", iface: name, wiring };
}

function planRecordAddresses(iface: IfaceFacts): NodeAction | undefined {
  const { podInterfaceName, links, remembered } = iface;
  const isRecorded = remembered !== undefined || links.hasAddresses !== true;
  if (isRecorded || !findBindingModule(iface).removesPodAddresses) return undefined;
  return { kind: "rememberAddresses", iface: iface.name, podInterfaceName };
}

/** Whether the guest can start without waiting for the interface. */
function isSettled(facts: IfaceFacts): boolean {
  if (!isWanted(facts)) return true;
  const state = facts.attachment?.state;
  return isSupported(facts) && (state === "Attached" || state === "Failed");
}

/** Plans the domain's start, once each interface is attached or failed. Failed interfaces are plugged later. */
function planStart(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.vmi.metadata.deletionTimestamp !== undefined) return [];
  if (!facts.ifaces.every(isSettled)) return [];
  const wirable = facts.ifaces.filter(isWirable);
  const unwired = wirable.filter(({ links }) => !links.isWired);
  if (unwired.length > 0) return unwired.map((iface) => planWire(facts, iface));
  const definition = planDomain(facts.vmi, wirable.filter(hasOwnDevice), facts);
  const isPaused = facts.vmi.spec.startStrategy === "Paused";
  return [
    { kind: "defineDomain", xml: printDomain(definition) },
    { kind: "startDomain", ...(isPaused && { paused: true }) },
  ];
}

/** Whether the tap that the device opened was deleted, even if another tap has its name now. */
function hasLostTap(facts: IfaceFacts): boolean {
  const { tap, tapIndex, isTapOpen, isWired } = facts.links;
  if (isTapOpen || isMadeByHook(facts) || findBindingModule(facts).kind === "vhostuser")
    return false;
  const isMissing = !tap && tapIndex === undefined;
  return isMissing || isWired;
}

function planDetach(
  facts: IfaceFacts,
  request: UnplugRequest | undefined,
  { abortsWithoutTap }: DomainFacts,
): NodeAction {
  const iface = facts.name;
  if (abortsWithoutTap === true && hasLostTap(facts))
    return { kind: "wait", iface, reason: "TapLost" };
  const forMs = request === undefined ? 0 : computeUnplugRetryMs(request.count) - request.agoMs;
  if (forMs <= 0) return { kind: "detachDevice", iface, alias: toAlias(iface) };
  const replaced =
    findBindingModule(facts).kind === "vhostuser" ? "BackendReplaced" : "TapReplaced";
  const reason = isWanted(facts) ? replaced : "GuestRefused";
  return { kind: "wait", iface, reason, forMs };
}

function planUnwire(facts: IfaceFacts): readonly NodeAction[] {
  const { tap, bridge } = facts.links;
  const wiring = buildWiring(facts);
  if ((!tap && !bridge) || wiring === undefined) return planLeftoverBridge(facts);
  return [{ kind: "unwireTap", iface: facts.name, wiring: toRemovableWiring(wiring) }];
}

function planAttach(iface: IfaceFacts, placement: NicPlacement | WaitReason): NodeAction {
  return typeof placement === "string"
    ? { kind: "wait", iface: iface.name, reason: placement }
    : {
        kind: "attachDevice",
        iface: iface.name,
        xml: printNic(buildNicDefinition(iface, placement)),
      };
}

export function planLink(iface: IfaceFacts): readonly NodeAction[] {
  if (isMadeByHook(iface)) return [];
  const isUp = iface.iface?.state !== "down";
  if (!findBindingModule(iface).live.canSetLink) return [];
  const definition = iface.device?.linkUp === isUp ? undefined : buildLiveNic(iface, isUp);
  if (definition === undefined) return [];
  return [{ kind: "setLink", iface: iface.name, xml: printNic(definition) }];
}

/** Plans a network swap. A wrong link state is corrected first, because the swap may be backing off. */
function planSwap(facts: NodeVmFacts, iface: IfaceFacts): readonly NodeAction[] {
  const link = planLink(iface);
  const { swap } = iface;
  if (link.length > 0 || swap === undefined) return link;
  const remember = planRecordAddresses(toSwappedFacts({ ...iface, swap }));
  if (remember !== undefined) return [remember];
  return planSwapNetwork(iface, (each) => planWiring(facts, each));
}

/** Adds the removal of leftover bridges if nothing but waiting is planned for the interface. */
function orRemoveLeftoverBridge(
  iface: IfaceFacts,
  steps: readonly NodeAction[],
): readonly NodeAction[] {
  return steps.some(({ kind }) => kind !== "wait") ? steps : (planLeftoverRemoval(iface) ?? steps);
}

function planLeftoverRemoval(iface: IfaceFacts): readonly NodeAction[] | undefined {
  const actions = planLeftoverBridge(iface);
  return actions.length === 0 ? undefined : actions;
}

/** Whether one plan can wire and plug the NIC. If the pod serves its addresses, the DHCP server must listen before the plug. */
function canPlugAtOnce(iface: IfaceFacts): boolean {
  const mustWire = decidePhase(iface) === "Wiring" && isWirable(iface);
  return mustWire && planRecordAddresses(iface) === undefined && buildLease(iface) === undefined;
}

function isNewcomer(iface: IfaceFacts, facts: NodeVmFacts): boolean {
  if (iface.device !== undefined || !hasOwnDevice(iface)) return false;
  if (findVhostUserBlock(iface, facts) !== undefined) return false;
  return decidePhase(iface) === "Attaching" || canPlugAtOnce(iface);
}

/** Plans wiring and, if possible, plugging the NIC. A missing port is only reported once the NIC is wired. */
function planPlug(
  facts: NodeVmFacts,
  iface: IfaceFacts,
  placement: NicPlacement | WaitReason | undefined,
): readonly NodeAction[] {
  const wire = planWire(facts, iface);
  return typeof placement === "object" ? [wire, planAttach(iface, placement)] : [wire];
}

function planLive(facts: NodeVmFacts, domain: DomainSnapshot): readonly NodeAction[] {
  const newcomers = facts.ifaces.filter((iface) => isNewcomer(iface, facts));
  const placements = planLivePlacements(facts, domain.facts, newcomers);
  const detach = (iface: IfaceFacts): readonly NodeAction[] => [
    planDetach(iface, facts.unplugRequests[iface.name], domain.facts),
  ];
  const attach = (iface: IfaceFacts): readonly NodeAction[] =>
    hasOwnDevice(iface)
      ? [
          planAttach(
            iface,
            findVhostUserBlock(iface, facts) ?? placements.get(iface.name) ?? "NoFreePciePort",
          ),
        ]
      : [];
  const steps: Partial<Record<IfacePhase, (iface: IfaceFacts) => readonly NodeAction[]>> = {
    Wiring: (iface) =>
      isAttached(iface) ? planPlug(facts, iface, placements.get(iface.name)) : [],
    Attaching: (iface) => (mustReleaseDevice(iface) ? detach(iface) : attach(iface)),
    Detaching: detach,
    Unwiring: planUnwire,
    Ready: planLink,
    PodSwapping: planLink,
    Switching: (iface) => planSwap(facts, iface),
  };
  return facts.ifaces.flatMap((iface) =>
    orRemoveLeftoverBridge(iface, steps[decidePhase(iface) ?? "Pending"]?.(iface) ?? []),
  );
}

/** Plans the removal of links of unwanted interfaces, which nothing uses while the domain does not run. */
function planLeftovers(facts: NodeVmFacts): readonly NodeAction[] {
  return facts.ifaces.filter((iface) => decidePhase(iface) === "Unwiring").flatMap(planUnwire);
}

function planSweep({ orphanedWirings: orphans = [] }: NodeVmFacts): readonly NodeAction[] {
  return orphans.map((wiring) => ({ kind: "sweepLinks", wiring }));
}

/** Plans the next actions. The caller observes again after each plan that is not empty. */
export function planNodeVm(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.role === "target") return planTarget(facts);
  if (openMigration(facts.vmi) !== undefined) return planSource(facts);
  const steps = [...planDhcpServers(facts), ...planGuest(facts)];
  return mustReportFirst(steps, facts) ? [{ kind: "report" }, ...steps] : steps;
}

/**
 * Plans the links for an incoming guest, without starting it. The guest arrives with all its NICs, including those with a
 * pending unplug. Nothing is changed after it has arrived.
 */
function planTarget(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.domain !== undefined) return [];
  const attached = facts.ifaces.filter(isInPod);
  return attached.filter(({ links }) => !links.isWired).map((iface) => planWire(facts, iface));
}

export function isInPod(iface: IfaceFacts): boolean {
  return isSupported(iface) && iface.attachment?.state === "Attached";
}

/** Plans a guest that is migrating or has migrated: all changes wait until its final node is known. */
function planSource(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.domain?.running !== true) return [];
  const steps = planLive(facts, facts.domain);
  const ifaces = new Set(steps.flatMap((step) => ("iface" in step ? [step.iface] : [])));
  return [...ifaces].map((iface) => ({ kind: "wait", iface, reason: "WaitingForMigration" }));
}

function planGuest(facts: NodeVmFacts): readonly NodeAction[] {
  const sweeps = planSweep(facts);
  if (facts.domain?.running === true) {
    // No migration is open, so no other node waits for the guest.
    const resumed = facts.domain.isMigratingOut === true ? [{ kind: "resumeDomain" } as const] : [];
    return [...planLive(facts, facts.domain), ...sweeps, ...resumed];
  }
  const ended = hasRun(facts.vmi);
  return [...planLeftovers(facts), ...sweeps, ...(ended ? [] : planStart(facts))];
}

/** Plans DHCP servers. They start before a device is attached, because the guest requests an address at once. */
function planDhcpServers(facts: NodeVmFacts): readonly NodeAction[] {
  const { served = [] } = facts;
  const nics = buildServedNics(facts);
  const ended = served.filter((old) => nics.every((nic) => nic.bridgeName !== old.bridgeName));
  const changed = nics.filter((nic) => !served.some((old) => isEqual(old, nic)));
  return [
    ...ended.map(({ bridgeName }) => ({ kind: "stopServing", bridgeName }) as const),
    ...changed.map((nic) => ({ kind: "serveAddresses", nic }) as const),
  ];
}

function findUsedPodNic(action: NodeAction): string | undefined {
  if (action.kind === "wireTap") return action.wiring.podInterfaceName;
  return action.kind === "swapNetwork" ? action.to.podInterfaceName : undefined;
}

function isNewUse(nic: string, reported: IfaceStatus | undefined): boolean {
  const { hotplug, podInterfaceName, otherPodInterfaceNames = [] } = reported ?? {};
  const used = [podInterfaceName ?? [], otherPodInterfaceNames].flat();
  return hotplug?.type === "Unplug" || (used.length > 0 && !used.includes(nic));
}

/** Whether the status must be written first, because virt-controller could remove an attachment that the plan starts to use. */
export function mustReportFirst(plan: readonly NodeAction[], { ifaces }: NodeVmFacts): boolean {
  return plan.some((action) => {
    const nic = findUsedPodNic(action);
    const iface = "iface" in action ? findByName(ifaces, action.iface) : undefined;
    return nic !== undefined && isNewUse(nic, iface?.reported);
  });
}

export interface Drift {
  readonly iface: string;
  readonly message: string;
}

function describeLinks({ links: { tap, bridge } }: IfaceFacts): string {
  if (!tap && !bridge) return "its tap and its bridge did not exist and were recreated";
  if (!tap) return "its tap did not exist and was recreated";
  if (!bridge) return "its bridge did not exist and was recreated";
  return "its links in the pod were changed by something else and are repaired";
}

const DRIFT_MESSAGES: Partial<Record<NodeAction["kind"], (facts: IfaceFacts) => string>> = {
  attachDevice: () => "its device was missing from the VM and was plugged again",
  detachDevice: () =>
    "its tap, or its socket, is not the one that its device uses; the device is unplugged and plugged again",
  linkSocket: () => "its socket was recreated and shared with the launcher again",
  wireTap: describeLinks,
};

/** Finds repairs of NICs that were ready. Ignores interfaces that are being unplugged, and VMIs that are being deleted. */
export function findDrift(
  plan: readonly NodeAction[],
  { vmi, ifaces }: Pick<NodeVmFacts, "vmi" | "ifaces">,
): readonly Drift[] {
  if (vmi.metadata.deletionTimestamp !== undefined) return [];
  return plan.flatMap((action): readonly Drift[] => {
    const facts = "iface" in action ? findByName(ifaces, action.iface) : undefined;
    const hotplug = facts?.reported?.hotplug;
    if (facts === undefined || hotplug?.phase !== "Ready" || !isWanted(facts)) return [];
    const fault = DRIFT_MESSAGES[action.kind]?.(facts);
    if (fault === undefined) return [];
    return [{ iface: facts.name, message: `interface ${facts.name}: ${fault}` }];
  });
}
