// SPDX-License-Identifier: Apache-2.0
// The steps on an iface: what each is called, and how it is done. Each may be repeated.
import {
  domainNameOf,
  type NodeAction,
  aliasOf,
  findByName,
  hindranceOfFailure,
  hindranceOfWait,
  ipv6GatewayOf,
  isAppError,
  LINKS_RESTLESS,
  requestsReported,
  type ErrorCode,
} from "@patchbay/core";
import { keyOf, printKey, type Step } from "@patchbay/kube";
import { type StepContext, isLost, timed, type NodeStep } from "./step-context.ts";
import { WIRING_REFILL_MS } from "../../../pace.ts";

type SwapAction = Extract<NodeAction, { kind: "swapNetwork" }>;

/**
 * The link is down for so long at least, milliseconds: a guest that finds it up again when it looks has seen nothing, and
 * asks for no new address.
 */
const LINK_DOWN_MS = 50;
/** It is too short to be cut. */
const NEVER = new AbortController().signal;

/** As it was before, as far as that can be had; what fails here is seen by the next pass, and mended. */
async function goBack(action: SwapAction, setLink: SetLink, context: StepContext): Promise<void> {
  const { podNetwork, log } = context.deps;
  const steps = [
    () => podNetwork.wireTap(context.session.launcher.netns, action.from),
    () => setLink("up"),
  ];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      log.warn("a NIC could not go back to its network", { iface: action.iface, err: error });
    }
  }
}

type SetLink = (state: "up" | "down") => Promise<void>;

function linkSetter({ link }: SwapAction, { facts, session }: StepContext): SetLink {
  return async (state) => {
    if (link === undefined) return;
    await session.connection.updateDevice(domainNameOf(facts.vmi), link[state], "live");
  };
}

/** The tap is moved while the link is down, for long enough to be seen. */
async function moveTap(action: SwapAction, { session, deps }: StepContext): Promise<void> {
  const begunMs = deps.clock.monotonicMs();
  await deps.podNetwork.wireTap(session.launcher.netns, action.to);
  const leftMs = LINK_DOWN_MS - (deps.clock.monotonicMs() - begunMs);
  if (action.link !== undefined && leftMs > 0) await deps.clock.sleep(leftMs, NEVER);
}

/**
 * What can be made before is made before, so that the link is down for the swap alone.
 * @throws AppError of the step that failed; the device is on its old network then, as far as that can be had.
 */
async function swapNetwork(action: SwapAction, context: StepContext): Promise<void> {
  const { session, deps, facts } = context;
  const setLink = linkSetter(action, context);
  await deps.podNetwork.makeBridge(session.launcher.netns, action.to);
  const begunMs = deps.clock.monotonicMs();
  try {
    await setLink("down");
    await moveTap(action, context);
  } catch (error) {
    await goBack(action, setLink, context);
    throw error;
  }
  await setLink("up");
  deps.log.info("swapped the network of a NIC", {
    vmi: printKey(keyOf(facts.vmi)),
    iface: action.iface,
    linkDownMs: Math.round(deps.clock.monotonicMs() - begunMs),
  });
}

/** A step on an iface. */
type IfaceAction = Extract<NodeAction, { iface: string }>;
/** One that does something. */
type EffectiveAction = Exclude<IfaceAction, { kind: "wait" }>;

const KINDS: readonly EffectiveAction["kind"][] = [
  "rememberAddresses",
  "linkSocket",
  "wireTap",
  "attachDevice",
  "detachDevice",
  "unwireTap",
  "setLink",
  "swapNetwork",
  "removeBridge",
];

/** Names of all steps on an iface, among the steps that are left alone. */
export function stepsOf(iface: string): readonly string[] {
  return KINDS.map((kind) => `${kind} ${iface}`);
}

/** Takes some refusals for success: what was asked for is so already, or is on its way. */
async function tolerate(call: Promise<void>, ...codes: readonly ErrorCode[]): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!codes.some((code) => isAppError(error, code))) throw error;
  }
}

/** Puts the device into the definition and into the running guest, at once; one by one where either has it. */
async function attach(alias: string, xml: string, { facts, session }: StepContext): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  try {
    await connection.attachDevice(name, xml, "both");
    return;
  } catch (error) {
    if (!isAppError(error, "LIBVIRT_DEVICE_EXISTS")) throw error;
  }
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  await connection.attachDevice(name, xml, "config");
  await tolerate(connection.attachDevice(name, xml, "live"), "LIBVIRT_DEVICE_EXISTS");
}

/** Takes the device out of the definition, then asks the running guest to let go of it. */
async function detach(
  iface: string,
  alias: string,
  { facts, session, deps }: StepContext,
): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  const before = requestsReported(findByName(facts.ifaces, iface)?.reported);
  const takeBack = deps.unplugRequests.note(facts.vmi.metadata.uid ?? "", iface, before);
  try {
    const live = connection.detachDevice(name, alias, "live");
    // It went meanwhile; or an earlier request is still with the guest.
    await tolerate(live, "LIBVIRT_DEVICE_MISSING", "LIBVIRT_UNPLUG_PENDING");
  } catch (error) {
    // Of a connection that is lost nobody knows whether the guest heard it.
    if (!isLost(error)) takeBack();
    throw error;
  }
}

/** What the NIC has is on the disk before wiring takes it. */
async function remember(
  podInterfaceName: string,
  { pod, session, deps }: StepContext,
): Promise<void> {
  const row = await deps.podNetwork.readAddresses(session.launcher.netns, podInterfaceName);
  if (ipv6GatewayOf(row) !== undefined && row.gatewayMac === undefined) {
    deps.log.warn("the IPv6 gateway cannot be answered for", { link: podInterfaceName });
  }
  await deps.addressStore.write(pod.uid, row);
}

/** What is so already is success. */
async function perform(action: EffectiveAction, context: StepContext): Promise<void> {
  const { facts, session, deps } = context;
  const { netns } = session.launcher;
  switch (action.kind) {
    case "rememberAddresses":
      await remember(action.podInterfaceName, context);
      return;
    case "linkSocket":
      deps.vhostSockets.link(context.pod.uid, action.socket);
      return;
    case "wireTap":
      await deps.podNetwork.wireTap(netns, action.wiring);
      return;
    case "unwireTap":
      await deps.podNetwork.unwireTap(netns, action.wiring);
      return;
    case "attachDevice":
      await attach(aliasOf(action.iface), action.xml, context);
      return;
    case "detachDevice":
      await detach(action.iface, action.alias, context);
      return;
    case "swapNetwork":
      await swapNetwork(action, context);
      return;
    case "removeBridge":
      await deps.podNetwork.removeBridge(netns, action.bridgeName);
      return;
    case "setLink":
      await session.connection.updateDevice(domainNameOf(facts.vmi), action.xml, "live");
  }
}

const ON_DEVICE: readonly NodeAction["kind"][] = [
  "attachDevice",
  "detachDevice",
  "setLink",
  "swapNetwork",
];

/** Whether the action is a call on a device of the domain. */
export function isOnDevice({ kind }: NodeAction): boolean {
  return ON_DEVICE.includes(kind);
}

type Waiting = ReturnType<NonNullable<NodeStep["wait"]>>;

/** A wiring that is spoilt again each time is made so often and no more. */
function waitOf(action: EffectiveAction, step: Step, { facts, deps }: StepContext): Waiting {
  if (action.kind !== "wireTap" || deps.steps.findHeld(step) !== undefined) return undefined;
  if (deps.wirings.take(facts.vmi, action.iface)) return undefined;
  return { shown: { ...LINKS_RESTLESS, attempts: 0 }, pauseMs: WIRING_REFILL_MS };
}

/** An iface that waits: nothing is done, and what it waits for is told. */
function waitingStep(
  action: Extract<IfaceAction, { kind: "wait" }>,
  { facts }: StepContext,
): NodeStep {
  const shown = hindranceOfWait(action, facts);
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: `wait ${action.iface}`,
    circumstances: "",
    ifaces: [action.iface],
    isOnDevice: false,
    perform: () => Promise.resolve(),
    explain: () => shown,
    log: () => undefined,
    wait: () => ({ shown, pauseMs: action.forMs }),
  };
}

/** Name of the action's step: each NIC has one for each kind. */
export function nameOfStep({ kind, iface }: Pick<IfaceAction, "kind" | "iface">): string {
  return `${kind} ${iface}`;
}

/** The action as a step. Its circumstances are all NICs: others may free what it needs. */
export function ifaceStep(action: IfaceAction, context: StepContext): NodeStep {
  if (action.kind === "wait") return waitingStep(action, context);
  const { facts, deps } = context;
  const { kind, iface } = action;
  const nics = facts.domain?.facts.nics.map(({ alias }) => alias) ?? [];
  const step: Step = {
    scope: facts.vmi.metadata.uid ?? "",
    name: nameOfStep(action),
    circumstances: JSON.stringify([action, nics]),
  };
  const reported = findByName(facts.ifaces, iface)?.reported;
  return {
    ...step,
    ifaces: [iface],
    isOnDevice: isOnDevice(action),
    perform: () => timed(action, context, () => perform(action, context)),
    explain: (error) => hindranceOfFailure(kind, error, reported),
    log: ({ shown: { attempts: attempt }, error: err }) => {
      // A lost connection is told of the pass as a whole.
      if (!isLost(err)) deps.log.warn("step failed", { action: kind, iface, attempt, err });
    },
    wait: () => waitOf(action, step, context),
  };
}
