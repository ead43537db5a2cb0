// SPDX-License-Identifier: Apache-2.0
// virt-handler's actions for one VMI: start its domain, and plug and unplug its NICs.
import {
  isVmiFinal,
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
  type ObservedWiring,
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
  canEnforcePolicy,
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
import { findCondition, PAUSED } from "../../status/conditions.ts";
import { findByName } from "../../nics/nics.ts";

/** Action of virt-handler. Actions run in order and may be repeated. */
export type NodeAction =
  | { readonly kind: "wireTap"; readonly iface: string; readonly wiring: PodWiring }
  | LinkSocketAction
  /** Records the pod NIC's addresses, because wiring removes them. */
  | {
      readonly kind: "rememberAddresses";
      readonly iface: string;
      readonly podInterfaceName: string;
    }
  /** Replaces the rules of network policies at a tap that works. */
  | { readonly kind: "applyPolicy"; readonly iface: string; readonly wiring: ObservedWiring }
  | { readonly kind: "serveAddresses"; readonly nic: ServedNic }
  | { readonly kind: "stopServing"; readonly bridgeName: string }
  | { readonly kind: "defineDomain"; readonly xml: string }
  | { readonly kind: "startDomain"; readonly paused?: true }
  /** Resumes a guest that is paused because its migration failed in the last phase. */
  | { readonly kind: "resumeDomain" }
  /** Resumes a guest that a disk error has paused. QEMU then repeats the failed request. */
  | { readonly kind: "retryDisk" }
  | { readonly kind: "attachDevice"; readonly iface: string; readonly xml: string }
  | { readonly kind: "detachDevice"; readonly iface: string; readonly alias: string }
  | SwapAction
  | RemoveBridgeAction
  /** Sets the link state. `xml` is the existing device with the wanted link state. */
  | { readonly kind: "setLink"; readonly iface: string; readonly xml: string }
  | {
      readonly kind: "unwireTap";
      readonly iface: string;
      readonly wiring: RemovableWiring;
    }
  /** Writes the status, which virt-controller must read before the next actions. If this write is delayed, they wait for the next plan. */
  | { readonly kind: "report" }
  | { readonly kind: "sweepLinks"; readonly wiring: RemovableWiring }
  | {
      readonly kind: "wait";
      readonly iface: string;
      readonly reason: WaitReason;
      readonly forMs?: number;
    };

/** Reason why an interface waits. `blockedReasonOfWait` maps the reason to `hotplug.reason`. */
export type WaitReason =
  | PlacementProblem
  | VhostUserBlock
  | "GuestRefused"
  | "TapReplaced"
  | "TapLost"
  | "PodInterfaceMissing"
  | "PolicyNotEnforced"
  | "WaitingForMigration";

export interface DomainSnapshot {
  readonly running: boolean;
  /** Whether the domain is paused. A paused domain also has `running` set. */
  readonly isPaused: boolean;
  /** Set if a disk error paused the domain. */
  readonly hasDiskError?: true;
  /** Whether the QEMU process crashed on this node or on the migration target. */
  readonly crashed: boolean;
  /** Set if the domain is paused in the last phase of an outgoing migration. */
  readonly isMigratingOut?: true;
  readonly facts: DomainFacts;
}

export interface NodeVmFacts {
  readonly vmi: VirtualMachineInstance;
  readonly role: NodeRole;
  readonly ifaces: readonly IfaceFacts[];
  readonly domain: DomainSnapshot | undefined;
  /** Whether the user's last request to pause or resume the guest was to pause it. Unset if this process received none. */
  readonly isPauseRequested?: boolean | undefined;
  readonly useEmulation: boolean;
  readonly network: NetworkConfig;
  readonly uuid: string;
  readonly orphanedWirings?: readonly RemovableWiring[];
  readonly unplugRequests: Readonly<Record<string, UnplugRequest | undefined>>;
  readonly guestLinks?: readonly LinkView[];
  /** Time at which the guest agent stopped responding, in RFC 3339. Unset if it responds or has never responded. */
  readonly silentSince?: string;
  readonly guestSystem?: GuestOsInfo;
  readonly served?: readonly ServedNic[];
  readonly dns?: DnsSettings;
  /** Names of interfaces whose specification changed after their links were last complete. */
  readonly changedIfaces?: ReadonlySet<string>;
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

/** Checks whether Patchbay creates the device. For some bindings, a hook creates it. */
function hasOwnDevice(facts: IfaceFacts): boolean {
  return isSupported(facts) && !isMadeByHook(facts);
}

function isAttached(facts: IfaceFacts): boolean {
  return isWanted(facts) && isSupported(facts) && facts.attachment?.state === "Attached";
}

function isWirable(facts: IfaceFacts): boolean {
  return isAttached(facts) && facts.links.hasPodInterface;
}

function planWire(facts: NodeVmFacts, iface: IfaceFacts): NodeAction {
  const { name } = iface;
  if (!canEnforcePolicy(iface)) return { kind: "wait", iface: name, reason: "PolicyNotEnforced" };
  const reason = findVhostUserBlock(iface, facts);
  if (reason !== undefined) return { kind: "wait", iface: name, reason };
  if (!iface.links.hasPodInterface)
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

function isSettled(facts: IfaceFacts): boolean {
  if (!isWanted(facts)) return true;
  const state = facts.attachment?.state;
  return isSupported(facts) && (state === "Attached" || state === "Failed");
}

/** Plans the domain's start. The start waits until each interface is attached or failed. virt-handler plugs a failed interface later. */
function planStart(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.vmi.metadata.deletionTimestamp !== undefined) return [];
  if (!facts.ifaces.every(isSettled)) return [];
  const wirableIfaces = facts.ifaces.filter(isWirable);
  const unwiredIfaces = wirableIfaces.filter(({ links }) => !links.isWired);
  if (unwiredIfaces.length > 0) return unwiredIfaces.map((iface) => planWire(facts, iface));
  const definition = planDomain(facts.vmi, wirableIfaces.filter(hasOwnDevice), facts);
  const isPaused = facts.vmi.spec.startStrategy === "Paused";
  return [
    { kind: "defineDomain", xml: printDomain(definition) },
    { kind: "startDomain", ...(isPaused && { paused: true }) },
  ];
}

/** Checks whether the tap that the device opened was deleted, even if a new tap has the same name. */
function hasLostTap(facts: IfaceFacts): boolean {
  const { hasTap, tapIndex, isTapOpen, isWired } = facts.links;
  if (isTapOpen || isMadeByHook(facts) || findBindingModule(facts).kind === "vhostuser")
    return false;
  const isMissing = !hasTap && tapIndex === undefined;
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
  const replacementReason =
    findBindingModule(facts).kind === "vhostuser" ? "BackendReplaced" : "TapReplaced";
  const reason = isWanted(facts) ? replacementReason : "GuestRefused";
  return { kind: "wait", iface, reason, forMs };
}

function planUnwire(facts: IfaceFacts): readonly NodeAction[] {
  const { hasTap, hasBridge } = facts.links;
  const wiring = buildWiring(facts);
  if ((!hasTap && !hasBridge) || wiring === undefined) return planLeftoverBridge(facts);
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
  const wantsLinkUp = iface.iface?.state !== "down";
  if (!findBindingModule(iface).live.canSetLink) return [];
  const definition =
    iface.device?.linkUp === wantsLinkUp ? undefined : buildLiveNic(iface, wantsLinkUp);
  if (definition === undefined) return [];
  return [{ kind: "setLink", iface: iface.name, xml: printNic(definition) }];
}

/** Plans a network swap. Corrects the link state first, because the backoff of a failed swap would delay the correction. */
function planSwap(facts: NodeVmFacts, iface: IfaceFacts): readonly NodeAction[] {
  const link = planLink(iface);
  const { swap } = iface;
  if (link.length > 0 || swap === undefined) return link;
  const recordAction = planRecordAddresses(toSwappedFacts({ ...iface, swap }));
  if (recordAction !== undefined) return [recordAction];
  return planSwapNetwork(iface, (swappedFacts) => planWiring(facts, swappedFacts));
}

/** Plans the removal of a leftover bridge if one exists and `steps` contains no step except waits. Otherwise returns `steps`. */
function planLeftoverBridgeRemoval(
  iface: IfaceFacts,
  steps: readonly NodeAction[],
): readonly NodeAction[] {
  return steps.some(({ kind }) => kind !== "wait") ? steps : (planLeftoverRemoval(iface) ?? steps);
}

function planLeftoverRemoval(iface: IfaceFacts): readonly NodeAction[] | undefined {
  const actions = planLeftoverBridge(iface);
  return actions.length === 0 ? undefined : actions;
}

/** Checks whether one plan can wire and plug the NIC. One plan cannot if a DHCP server must start in between. */
function canPlugAtOnce(iface: IfaceFacts): boolean {
  const mustWire = decidePhase(iface) === "Wiring" && isWirable(iface);
  return mustWire && planRecordAddresses(iface) === undefined && buildLease(iface) === undefined;
}

function isNewIface(iface: IfaceFacts, facts: NodeVmFacts): boolean {
  if (iface.device !== undefined || !hasOwnDevice(iface)) return false;
  if (findVhostUserBlock(iface, facts) !== undefined) return false;
  return decidePhase(iface) === "Attaching" || canPlugAtOnce(iface);
}

function planPlug(
  facts: NodeVmFacts,
  iface: IfaceFacts,
  placement: NicPlacement | WaitReason | undefined,
): readonly NodeAction[] {
  const wireActions = planWire(facts, iface);
  return typeof placement === "object"
    ? [wireActions, planAttach(iface, placement)]
    : [wireActions];
}

function planLive(facts: NodeVmFacts, domain: DomainSnapshot): readonly NodeAction[] {
  const newcomers = facts.ifaces.filter((iface) => isNewIface(iface, facts));
  const placements = planLivePlacements(facts, domain.facts, newcomers);
  const planDetachOf = (iface: IfaceFacts): readonly NodeAction[] => [
    planDetach(iface, facts.unplugRequests[iface.name], domain.facts),
  ];
  const planAttachOf = (iface: IfaceFacts): readonly NodeAction[] =>
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
    Attaching: (iface) => (mustReleaseDevice(iface) ? planDetachOf(iface) : planAttachOf(iface)),
    Detaching: planDetachOf,
    Unwiring: planUnwire,
    Ready: planLink,
    PodSwapping: planLink,
    Switching: (iface) => planSwap(facts, iface),
  };
  return facts.ifaces.flatMap((iface) =>
    planLeftoverBridgeRemoval(iface, steps[decidePhase(iface) ?? "Pending"]?.(iface) ?? []),
  );
}

/** Plans the removal of links of unwanted interfaces. The domain must not run, so that no process uses these links. */
function planLeftovers(facts: NodeVmFacts): readonly NodeAction[] {
  return facts.ifaces.filter((iface) => decidePhase(iface) === "Unwiring").flatMap(planUnwire);
}

function planSweep({ orphanedWirings: orphanedWirings = [] }: NodeVmFacts): readonly NodeAction[] {
  return orphanedWirings.map((wiring) => ({ kind: "sweepLinks", wiring }));
}

/** Plans updates of the rules of network policies. The updates precede the guest's steps, and also happen during a migration. */
function planPolicies({ ifaces }: NodeVmFacts): readonly NodeAction[] {
  return ifaces.flatMap((iface) => {
    const wiring = iface.links.isPolicyOutdated === true ? buildWiring(iface) : undefined;
    return wiring === undefined ? [] : [{ kind: "applyPolicy", iface: iface.name, wiring }];
  });
}

/** Plans the next actions. After a plan with actions, the caller observes the node again. */
export function planNodeVm(facts: NodeVmFacts): readonly NodeAction[] {
  const policies = planPolicies(facts);
  if (facts.role === "target") return [...policies, ...planTarget(facts)];
  if (openMigration(facts.vmi) !== undefined) return [...policies, ...planSource(facts)];
  const steps = [...policies, ...planDhcpServers(facts), ...planGuest(facts)];
  return mustReportFirst(steps, facts) ? [{ kind: "report" }, ...steps] : steps;
}

/** Plans the links for an incoming guest. The guest arrives with all its NICs, including NICs that are being unplugged. */
function planTarget(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.domain !== undefined) return [];
  const attached = facts.ifaces.filter(isInPod);
  return attached.filter(({ links }) => !links.isWired).map((iface) => planWire(facts, iface));
}

export function isInPod(iface: IfaceFacts): boolean {
  return isSupported(iface) && iface.attachment?.state === "Attached";
}

/** Makes all changes of a migrating guest wait until the guest's final node is known. */
function planSource(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.domain?.running !== true) return [];
  const steps = planLive(facts, facts.domain);
  const ifaces = new Set(steps.flatMap((step) => ("iface" in step ? [step.iface] : [])));
  return [...ifaces].map((iface) => ({ kind: "wait", iface, reason: "WaitingForMigration" }));
}

/** Whether a paused guest must wait for its user. libvirt does not record a pause of a guest that a disk error has already paused. */
export function isPausedByUser({
  vmi,
  domain,
  isPauseRequested,
}: Pick<NodeVmFacts, "vmi" | "domain" | "isPauseRequested">): boolean {
  if (domain?.hasDiskError !== true) return true;
  const reported = findCondition(vmi.status?.conditions, PAUSED)?.reason;
  return isPauseRequested ?? reported === "PausedByUser";
}

/** Plans the resumption of a paused guest. No migration may be open, so that no target node expects the guest. */
function planResume(facts: NodeVmFacts, domain: DomainSnapshot): readonly NodeAction[] {
  if (domain.isMigratingOut === true) return [{ kind: "resumeDomain" }];
  return domain.isPaused && !isPausedByUser(facts) ? [{ kind: "retryDisk" }] : [];
}

function planGuest(facts: NodeVmFacts): readonly NodeAction[] {
  const sweepActions = planSweep(facts);
  if (facts.domain?.running === true) {
    return [...planLive(facts, facts.domain), ...sweepActions, ...planResume(facts, facts.domain)];
  }
  const ended = hasRun(facts.vmi);
  return [...planLeftovers(facts), ...sweepActions, ...(ended ? [] : planStart(facts))];
}

/** Plans DHCP servers. A server starts before its NIC is plugged, because the guest requests an address immediately. */
function planDhcpServers(facts: NodeVmFacts): readonly NodeAction[] {
  const { served = [] } = facts;
  const nics = buildServedNics(facts);
  const endedNics = served.filter((oldNic) =>
    nics.every((nic) => nic.bridgeName !== oldNic.bridgeName),
  );
  const changedNics = nics.filter((nic) => !served.some((oldNic) => isEqual(oldNic, nic)));
  return [
    ...endedNics.map(({ bridgeName }) => ({ kind: "stopServing", bridgeName }) as const),
    ...changedNics.map((nic) => ({ kind: "serveAddresses", nic }) as const),
  ];
}

function findUsedPodNic(action: NodeAction): string | undefined {
  if (action.kind === "wireTap") return action.wiring.podInterfaceName;
  return action.kind === "swapNetwork" ? action.to.podInterfaceName : undefined;
}

function isNewUse(nic: string, ifaceStatus: IfaceStatus | undefined): boolean {
  const { hotplug, podInterfaceName, otherPodInterfaceNames = [] } = ifaceStatus ?? {};
  const usedNames = [podInterfaceName ?? [], otherPodInterfaceNames].flat();
  return hotplug?.type === "Unplug" || (usedNames.length > 0 && !usedNames.includes(nic));
}

/** Checks whether the plan starts to use a pod NIC. The status must first report the use, so that virt-controller retains the NIC. */
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

function describeLinks({ links: { hasTap, hasBridge } }: IfaceFacts): string {
  if (!hasTap && !hasBridge) return "its tap and its bridge did not exist and were recreated";
  if (!hasTap) return "its tap did not exist and was recreated";
  if (!hasBridge) return "its bridge did not exist and was recreated";
  return "its links in the pod were changed by something else and are repaired";
}

const DRIFT_MESSAGES: Partial<Record<NodeAction["kind"], (facts: IfaceFacts) => string>> = {
  attachDevice: () => "its device was missing from the VM and was plugged again",
  detachDevice: () =>
    "its tap, or its socket, is not the one that its device uses; the device is unplugged and plugged again",
  linkSocket: () => "its socket was recreated and shared with the launcher again",
  wireTap: describeLinks,
};

type DriftFacts = Pick<NodeVmFacts, "vmi" | "ifaces" | "role" | "domain" | "changedIfaces">;

/** Checks whether repairs count as drift. They do not if the guest is starting, ending or incoming, because its links change anyway. */
function canDrift({ vmi, role, domain }: DriftFacts): boolean {
  const isEnding = vmi.metadata.deletionTimestamp !== undefined || isVmiFinal(vmi);
  return role === "owner" && domain?.running === true && !isEnding;
}

/** Lists repairs of ready NICs that count as drift. Ignores NICs to unplug, and links that change because the specification changed. */
export function findDrift(plan: readonly NodeAction[], facts: DriftFacts): readonly Drift[] {
  if (!canDrift(facts)) return [];
  const { ifaces, changedIfaces } = facts;
  return plan.flatMap((action): readonly Drift[] => {
    const facts = "iface" in action ? findByName(ifaces, action.iface) : undefined;
    const hotplug = facts?.reported?.hotplug;
    if (facts === undefined || hotplug?.phase !== "Ready" || !isWanted(facts)) return [];
    const fault = DRIFT_MESSAGES[action.kind]?.(facts);
    const followsSpec = action.kind === "wireTap" && changedIfaces?.has(facts.name) === true;
    if (fault === undefined || followsSpec) return [];
    return [{ iface: facts.name, message: `interface ${facts.name}: ${fault}` }];
  });
}
