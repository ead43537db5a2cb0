// SPDX-License-Identifier: Apache-2.0
// What virt-handler does next for one VMI: start its domain, plug and unplug its ifaces.
import {
  names,
  type GuestOsInfo,
  type IfacePhase,
  type IfaceStatus,
  type NetworkConfig,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { printDomain, printNic, type DomainFacts } from "@patchbay/domain";
import type { DnsSettings } from "../../addresses/resolver.ts";
import { servedNics, type ServedNic } from "../../addresses/served-nic.ts";
import { leftOf, type LeftWiring, type PodWiring } from "../../bindings/pod-wiring.ts";
import { isEqual } from "../../equal.ts";
import type { LinkView } from "../../guest/view.ts";
import type { IfaceFacts } from "../../iface/facts.ts";
import { aliasOf } from "../../iface/names.ts";
import { isWanted, letsGo, phaseOf } from "../../iface/phase.ts";
import { isByHook, leaseOf, moduleOf, onSwap, wiringOf } from "../../iface/links/wiring.ts";
import { planLivePlaces, type NicPlace, type NoPlace } from "../../pcie/live-places.ts";
import { queuesOf } from "../../pcie/topology.ts";
import { planDomain } from "./domain.ts";
import { openMigration, type NodeRole } from "../../migration/owner.ts";
import { hasRun } from "../../node/has-run.ts";
import { findByName } from "../../spec/nics.ts";
import {
  planLinkSocket,
  vhostUserWaitOf,
  pauseAfterRequest,
  liveNicOf,
  nicDefinitionOf,
  planLeft,
  planSwapNetwork,
  type LinkSocketAction,
  type VhostUserWait,
  type UnplugRequest,
  type RemoveBridgeAction,
  type SwapAction,
} from "./nics.ts";

/** One step; performed in order, each may be repeated. */
export type NodeAction =
  | { readonly kind: "wireTap"; readonly iface: string; readonly wiring: PodWiring }
  | LinkSocketAction
  /** What the pod NIC has is written down, before wiring takes it. */
  | {
      readonly kind: "rememberAddresses";
      readonly iface: string;
      readonly podInterfaceName: string;
    }
  /** Starts the DHCP server of a NIC, or replaces it. */
  | { readonly kind: "serveAddresses"; readonly nic: ServedNic }
  /** Stops the DHCP server that listens on this bridge. */
  | { readonly kind: "stopServing"; readonly bridgeName: string }
  | { readonly kind: "defineDomain"; readonly xml: string }
  /** Paused: its vCPUs stand still until they are resumed. */
  | { readonly kind: "startDomain"; readonly paused?: true }
  /** A guest whose move has ended in its last moment goes on here. */
  | { readonly kind: "resumeDomain" }
  | { readonly kind: "attachDevice"; readonly iface: string; readonly xml: string }
  | { readonly kind: "detachDevice"; readonly iface: string; readonly alias: string }
  | SwapAction
  | RemoveBridgeAction
  /** The device as it is, with the link that is wanted. */
  | { readonly kind: "setLink"; readonly iface: string; readonly xml: string }
  | {
      readonly kind: "unwireTap";
      readonly iface: string;
      readonly wiring: LeftWiring;
    }
  /** The status is written before what follows: virt-controller must hear of that first. Held back: nothing follows. */
  | { readonly kind: "report" }
  /** Links of ours that belong to nobody. */
  | { readonly kind: "sweepLinks"; readonly wiring: LeftWiring }
  | {
      readonly kind: "wait";
      readonly iface: string;
      readonly reason: WaitReason;
      readonly forMs?: number;
    };

/** What an iface waits for; `hindranceOfWait` makes of it the reason that is shown in `hotplug.reason`. */
export type WaitReason =
  | NoPlace
  | VhostUserWait
  | "GuestRefused"
  | "TapReplaced"
  | "PodInterfaceMissing"
  | "WaitingForMigration";

/** A domain as libvirt has it. */
export interface DomainSnapshot {
  readonly running: boolean;
  /** Its vCPUs stand still; it is running all the same. */
  readonly isPaused: boolean;
  /** They do because a disk could not be written or read; absent: because somebody asked for it. */
  readonly hasDiskError?: true;
  /** Its process has died, here or where it went. */
  readonly crashed: boolean;
  /** It stands still on the last part of its way to another node; absent: it does not. */
  readonly isLeaving?: true;
  readonly facts: DomainFacts;
}

/** What the links, the domain and the VMI say at one moment; nothing else decides what is done next. */
export interface NodeVmFacts {
  readonly vmi: VirtualMachineInstance;
  /** What the node is to it. */
  readonly role: NodeRole;
  readonly ifaces: readonly IfaceFacts[];
  /** Undefined while libvirt has no such domain. */
  readonly domain: DomainSnapshot | undefined;
  readonly useEmulation: boolean;
  readonly network: NetworkConfig;
  /** The machine's UUID. */
  readonly uuid: string;
  /** Links of ours that belong to no iface; absent: none. */
  readonly orphans?: readonly LeftWiring[];
  /** What the guest was asked to let go of, by iface. */
  readonly asked: Readonly<Record<string, UnplugRequest | undefined>>;
  /** Links that are the guest's own; absent: none was told. */
  readonly guestLinks?: readonly LinkView[];
  /** Since when the guest's agent has not listened, RFC 3339; absent: it does, or never did. */
  readonly silentSince?: string;
  /** What the guest says of its system, as far as it can be shown. */
  readonly guestSystem?: GuestOsInfo;
  /** What the DHCP servers serve, one for each NIC. */
  readonly served?: readonly ServedNic[];
  /** The pod's resolver; absent: it has none. */
  readonly dns?: DnsSettings;
}

/** The wiring, with how a tap is made: for the launcher's user, with as many queues as its device. */
export function wiringPlanOf(
  { vmi, network }: NodeVmFacts,
  iface: IfaceFacts,
): PodWiring | undefined {
  const seen = wiringOf(iface);
  if (seen === undefined || seen.kind === "tap") return seen;
  const queues = queuesOf(vmi.spec, iface.iface, network);
  return { ...seen, owner: names.LAUNCHER_UID, queues };
}

/** Whether the iface can become a NIC: its binding is one that is built. */
function isBuilt({ binding }: IfaceFacts): boolean {
  return binding.kind !== "refused";
}

/** Whether its device is ours to make. */
function isOurs(facts: IfaceFacts): boolean {
  return isBuilt(facts) && !isByHook(facts);
}

/** Whether the iface is to be wired: it is wanted, and the pod is said to have it. */
function isAttached(facts: IfaceFacts): boolean {
  return isWanted(facts) && isBuilt(facts) && facts.attachment?.state === "Attached";
}

/** Whether the iface may be wired: the pod has it indeed. */
function isWirable(facts: IfaceFacts): boolean {
  return isAttached(facts) && facts.links.podInterface;
}

function planWire(facts: NodeVmFacts, iface: IfaceFacts): NodeAction {
  const { name } = iface;
  const reason = vhostUserWaitOf(iface, facts);
  if (reason !== undefined) return { kind: "wait", iface: name, reason };
  if (!iface.links.podInterface)
    return { kind: "wait", iface: name, reason: "PodInterfaceMissing" };
  const wiring = wiringPlanOf(facts, iface);
  if (wiring === undefined) return planLinkSocket(iface);
  return planRemember(iface) ?? { kind: "wireTap", iface: name, wiring };
}

/** Addresses of the NIC in the pod are noted before it loses them. */
function planRemember(iface: IfaceFacts): NodeAction | undefined {
  const { podInterfaceName, links, remembered } = iface;
  const isTaken = remembered !== undefined || links.hasAddresses !== true;
  if (isTaken || !moduleOf(iface).takesAddresses) return undefined;
  return { kind: "rememberAddresses", iface: iface.name, podInterfaceName };
}

/** Whether the start need not wait for the iface: it is not wanted, or it can be a NIC and its attachment has an outcome. */
function isSettled(facts: IfaceFacts): boolean {
  if (!isWanted(facts)) return true;
  const state = facts.attachment?.state;
  return isBuilt(facts) && (state === "Attached" || state === "Failed");
}

/** The domain starts when every declared iface has an outcome; a failed one is plugged live later. */
function planStart(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.vmi.metadata.deletionTimestamp !== undefined) return [];
  if (!facts.ifaces.every(isSettled)) return [];
  const wirable = facts.ifaces.filter(isWirable);
  const unwired = wirable.filter(({ links }) => !links.wired);
  if (unwired.length > 0) return unwired.map((iface) => planWire(facts, iface));
  const definition = planDomain(facts.vmi, wirable.filter(isOurs), facts);
  const isPaused = facts.vmi.spec.startStrategy === "Paused";
  return [
    { kind: "defineDomain", xml: printDomain(definition) },
    { kind: "startDomain", ...(isPaused && { paused: true }) },
  ];
}

function planDetach(facts: IfaceFacts, asked: UnplugRequest | undefined): NodeAction {
  const iface = facts.name;
  const forMs = asked === undefined ? 0 : pauseAfterRequest(asked.count) - asked.agoMs;
  if (forMs <= 0) return { kind: "detachDevice", iface, alias: aliasOf(iface) };
  const replaced = moduleOf(facts).kind === "vhostuser" ? "BackendReplaced" : "TapReplaced";
  const reason = isWanted(facts) ? replaced : "GuestRefused";
  return { kind: "wait", iface, reason, forMs };
}

function planUnwire(facts: IfaceFacts): readonly NodeAction[] {
  const { tap, bridge } = facts.links;
  const wiring = wiringOf(facts);
  if ((!tap && !bridge) || wiring === undefined) return planLeft(facts);
  return [{ kind: "unwireTap", iface: facts.name, wiring: leftOf(wiring) }];
}

function planAttach(iface: IfaceFacts, place: NicPlace | WaitReason): NodeAction {
  return typeof place === "string"
    ? { kind: "wait", iface: iface.name, reason: place }
    : { kind: "attachDevice", iface: iface.name, xml: printNic(nicDefinitionOf(iface, place)) };
}

/** The link of a NIC that is there follows the spec: up, unless it says down. */
export function planLink(iface: IfaceFacts): readonly NodeAction[] {
  if (isByHook(iface)) return [];
  const isUp = iface.iface?.state !== "down";
  if (!moduleOf(iface).live.link) return [];
  const definition = iface.device?.linkUp === isUp ? undefined : liveNicOf(iface, isUp);
  if (definition === undefined) return [];
  return [{ kind: "setLink", iface: iface.name, xml: printNic(definition) }];
}

/** A link that was left as it is not to be comes first: the next step may be left alone for a while. */
function planSwap(facts: NodeVmFacts, iface: IfaceFacts): readonly NodeAction[] {
  const link = planLink(iface);
  const { swap } = iface;
  if (link.length > 0 || swap === undefined) return link;
  const remember = planRemember(onSwap({ ...iface, swap }));
  if (remember !== undefined) return [remember];
  return planSwapNetwork(iface, (each) => wiringPlanOf(facts, each));
}

/** What is left over is in nobody's way: it goes when there is nothing else to do for the iface. */
function orLeft(iface: IfaceFacts, steps: readonly NodeAction[]): readonly NodeAction[] {
  return steps.some(({ kind }) => kind !== "wait") ? steps : (planLeftOf(iface) ?? steps);
}

function planLeftOf(iface: IfaceFacts): readonly NodeAction[] | undefined {
  const left = planLeft(iface);
  return left.length === 0 ? undefined : left;
}

/**
 * Whether the device can come in the plan that wires: everything about it is known before the tap is there. A NIC that the
 * pod is to give an address waits for its server, which listens on what is wired.
 */
function isPluggedAtOnce(iface: IfaceFacts): boolean {
  const isWired = phaseOf(iface) === "Wiring" && isWirable(iface);
  return isWired && planRemember(iface) === undefined && leaseOf(iface) === undefined;
}

/** Whether the iface gets its device by this plan, if there is a place for it. */
function isNewcomer(iface: IfaceFacts, facts: NodeVmFacts): boolean {
  if (iface.device !== undefined || !isOurs(iface)) return false;
  if (vhostUserWaitOf(iface, facts) !== undefined) return false;
  return phaseOf(iface) === "Attaching" || isPluggedAtOnce(iface);
}

/** Wires, and plugs where that can be done at once; that there is no place is told when it is wired. */
function planPlug(
  facts: NodeVmFacts,
  iface: IfaceFacts,
  place: NicPlace | WaitReason | undefined,
): readonly NodeAction[] {
  const wire = planWire(facts, iface);
  return typeof place === "object" ? [wire, planAttach(iface, place)] : [wire];
}

/** Plans live changes; hands out free PCI addresses in the order of the ifaces. */
function planLive(facts: NodeVmFacts, domain: DomainSnapshot): readonly NodeAction[] {
  const newcomers = facts.ifaces.filter((iface) => isNewcomer(iface, facts));
  const places = planLivePlaces(facts, domain.facts, newcomers);
  const detach = (iface: IfaceFacts): readonly NodeAction[] => [
    planDetach(iface, facts.asked[iface.name]),
  ];
  const attach = (iface: IfaceFacts): readonly NodeAction[] =>
    isOurs(iface)
      ? [
          planAttach(
            iface,
            vhostUserWaitOf(iface, facts) ?? places.get(iface.name) ?? "NoFreePciePort",
          ),
        ]
      : [];
  const steps: Partial<Record<IfacePhase, (iface: IfaceFacts) => readonly NodeAction[]>> = {
    Wiring: (iface) => (isAttached(iface) ? planPlug(facts, iface, places.get(iface.name)) : []),
    Attaching: (iface) => (letsGo(iface) ? detach(iface) : attach(iface)),
    Detaching: detach,
    Unwiring: planUnwire,
    Ready: planLink,
    PodSwapping: planLink,
    Switching: (iface) => planSwap(facts, iface),
  };
  return facts.ifaces.flatMap((iface) =>
    orLeft(iface, steps[phaseOf(iface) ?? "Pending"]?.(iface) ?? []),
  );
}

/** Without a running domain nothing holds the links of an iface that is not wanted. */
function planLeftovers(facts: NodeVmFacts): readonly NodeAction[] {
  return facts.ifaces.filter((iface) => phaseOf(iface) === "Unwiring").flatMap(planUnwire);
}

function planSweep({ orphans = [] }: NodeVmFacts): readonly NodeAction[] {
  return orphans.map((wiring) => ({ kind: "sweepLinks", wiring }));
}

/** The next steps for a VMI; the caller observes again after each plan that was not empty. */
export function planNodeVm(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.role === "target") return planTarget(facts);
  if (openMigration(facts.vmi) !== undefined) return planSource(facts);
  const steps = [...planServing(facts), ...planGuest(facts)];
  return isToldFirst(steps, facts) ? [{ kind: "report" }, ...steps] : steps;
}

/**
 * A guest is to come: what it hangs on is made, and nothing is started. It brings each NIC that it has, also one that it was
 * asked to let go of. Once it comes, nothing is changed.
 */
function planTarget(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.domain !== undefined) return [];
  const attached = facts.ifaces.filter(isInPod);
  return attached.filter(({ links }) => !links.wired).map((iface) => planWire(facts, iface));
}

/** Whether the pod is said to have the iface, wanted or not. */
export function isInPod(iface: IfaceFacts): boolean {
  return isBuilt(iface) && iface.attachment?.state === "Attached";
}

/** A guest is about to leave, or has left: whatever is asked for waits until it is known where it is. */
function planSource(facts: NodeVmFacts): readonly NodeAction[] {
  if (facts.domain?.running !== true) return [];
  const steps = planLive(facts, facts.domain);
  const ifaces = new Set(steps.flatMap((step) => ("iface" in step ? [step.iface] : [])));
  return [...ifaces].map((iface) => ({ kind: "wait", iface, reason: "WaitingForMigration" }));
}

function planGuest(facts: NodeVmFacts): readonly NodeAction[] {
  const swept = planSweep(facts);
  if (facts.domain?.running === true) {
    // Nobody waits for it elsewhere: no migration is open.
    const taken = facts.domain.isLeaving === true ? [{ kind: "resumeDomain" } as const] : [];
    return [...planLive(facts, facts.domain), ...swept, ...taken];
  }
  const ended = hasRun(facts.vmi);
  return [...planLeftovers(facts), ...swept, ...(ended ? [] : planStart(facts))];
}

/** Before a device is attached, because its guest requests an address at once. */
function planServing(facts: NodeVmFacts): readonly NodeAction[] {
  const { served = [] } = facts;
  const nics = servedNics(facts);
  const ended = served.filter((old) => nics.every((nic) => nic.bridgeName !== old.bridgeName));
  const changed = nics.filter((nic) => !served.some((old) => isEqual(old, nic)));
  return [
    ...ended.map(({ bridgeName }) => ({ kind: "stopServing", bridgeName }) as const),
    ...changed.map((nic) => ({ kind: "serveAddresses", nic }) as const),
  ];
}

/** The NIC in the pod that a step brings into use. */
function nicOfStep(action: NodeAction): string | undefined {
  if (action.kind === "wireTap") return action.wiring.podInterfaceName;
  return action.kind === "swapNetwork" ? action.to.podInterfaceName : undefined;
}

/** Whether the step takes into use what is not in use by the last report. */
function isNews(nic: string, reported: IfaceStatus | undefined): boolean {
  const { hotplug, podInterfaceName, otherPodInterfaceNames = [] } = reported ?? {};
  const used = [podInterfaceName ?? [], otherPodInterfaceNames].flat();
  return hotplug?.type === "Unplug" || (used.length > 0 && !used.includes(nic));
}

/**
 * Whether virt-controller must hear of the plan before it is carried out: an iface that was let go of is taken back, or
 * another NIC of the pod comes into use, whose attachment virt-controller could think unused.
 */
export function isToldFirst(plan: readonly NodeAction[], { ifaces }: NodeVmFacts): boolean {
  return plan.some((action) => {
    const nic = nicOfStep(action);
    const iface = "iface" in action ? findByName(ifaces, action.iface) : undefined;
    return nic !== undefined && isNews(nic, iface?.reported);
  });
}

/** One iface that is not as it was made. */
export interface Drift {
  readonly iface: string;
  /** What people are told. */
  readonly message: string;
}

function sayLinks({ links: { tap, bridge } }: IfaceFacts): string {
  if (!tap && !bridge) return "its tap and its bridge were gone and are created again";
  if (!tap) return "its tap was gone and is created again";
  if (!bridge) return "its bridge was gone and is created again";
  return "its links in the pod were changed by something else and are repaired";
}

/** By the steps that mend. */
const WRONGS: Partial<Record<NodeAction["kind"], (facts: IfaceFacts) => string>> = {
  attachDevice: () => "its device was gone from the VM and is plugged again",
  detachDevice: () =>
    "its tap, or its socket, is not the one that its device uses; the device is unplugged and plugged again",
  linkSocket: () => "its socket was made anew and is shared with the launcher again",
  wireTap: sayLinks,
};

/** The drift that a plan repairs; none of ifaces that were not ready or are unplugged, or of a VMI that is being deleted. */
export function driftIn(
  plan: readonly NodeAction[],
  { vmi, ifaces }: Pick<NodeVmFacts, "vmi" | "ifaces">,
): readonly Drift[] {
  if (vmi.metadata.deletionTimestamp !== undefined) return [];
  return plan.flatMap((action): readonly Drift[] => {
    const facts = "iface" in action ? findByName(ifaces, action.iface) : undefined;
    const hotplug = facts?.reported?.hotplug;
    if (facts === undefined || hotplug?.phase !== "Ready" || !isWanted(facts)) return [];
    const wrong = WRONGS[action.kind]?.(facts);
    if (wrong === undefined) return [];
    return [{ iface: facts.name, message: `interface ${facts.name}: ${wrong}` }];
  });
}
