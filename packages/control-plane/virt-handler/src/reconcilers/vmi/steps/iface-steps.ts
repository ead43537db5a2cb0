// SPDX-License-Identifier: Apache-2.0
// The steps of an iface, with their names. Each step can be repeated.
import { domainNameOf, type NodeAction } from "@patchbay/core/vm";
import { toAlias, findByName, findIpv6Gateway } from "@patchbay/core/nics";
import {
  blockedReasonOfFailure,
  blockedReasonOfWait,
  reportedUnplugRequests,
} from "@patchbay/core/status";
import { isAppError, type ErrorCode } from "@patchbay/base";
import { LINKS_KEEP_CHANGING } from "@patchbay/core/reasons";
import { keyOf, printKey, type Step } from "@patchbay/kube";
import { type StepContext, isLost, performTimed, type NodeStep } from "./step-context.ts";
import { WIRING_REFILL_MS } from "../../../rate-limits.ts";

type SwapAction = Extract<NodeAction, { kind: "swapNetwork" }>;

/** Milliseconds. A guest that finds the link up again when it checks does not request a new address. */
const LINK_DOWN_MIN_MS = 50;
/** The wait is too short to need a cancellation. */
const NEVER_ABORTED = new AbortController().signal;

/** Restores the old network as far as possible. The next pass detects and repairs what fails here. */
async function restoreNetwork(
  action: SwapAction,
  setLink: SetLink,
  context: StepContext,
): Promise<void> {
  const { podNetwork, log } = context.deps;
  const steps = [
    () => podNetwork.wireTap(context.session.launcher.netns, action.from),
    () => setLink("up"),
  ];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      log.warn("failed to restore the network of a NIC", { iface: action.iface, err: error });
    }
  }
}

type SetLink = (state: "up" | "down") => Promise<void>;

function createLinkSetter({ link }: SwapAction, { facts, session }: StepContext): SetLink {
  return async (state) => {
    if (link === undefined) return;
    await session.connection.updateDevice(domainNameOf(facts.vmi), link[state], "live");
  };
}

/** Moves the tap while the link is down, and long enough for the guest to notice. */
async function moveTap(action: SwapAction, { session, deps }: StepContext): Promise<void> {
  const startedMs = deps.clock.monotonicMs();
  await deps.podNetwork.wireTap(session.launcher.netns, action.to);
  const remainingMs = LINK_DOWN_MIN_MS - (deps.clock.monotonicMs() - startedMs);
  if (action.link !== undefined && remainingMs > 0)
    await deps.clock.sleep(remainingMs, NEVER_ABORTED);
}

/** @throws AppError of the step that failed; the device is back on its old network then, as far as possible */
async function swapNetwork(action: SwapAction, context: StepContext): Promise<void> {
  const { session, deps, facts } = context;
  const setLink = createLinkSetter(action, context);
  await deps.podNetwork.makeBridge(session.launcher.netns, action.to);
  const startedMs = deps.clock.monotonicMs();
  try {
    await setLink("down");
    await moveTap(action, context);
  } catch (error) {
    await restoreNetwork(action, setLink, context);
    throw error;
  }
  await setLink("up");
  deps.log.info("swapped the network of a NIC", {
    vmi: printKey(keyOf(facts.vmi)),
    iface: action.iface,
    linkDownMs: Math.round(deps.clock.monotonicMs() - startedMs),
  });
}

type IfaceAction = Extract<NodeAction, { iface: string }>;
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

export function listStepNames(iface: string): readonly string[] {
  return KINDS.map((kind) => `${kind} ${iface}`);
}

/** Treats errors with these codes as success: the requested state exists or is being reached. */
async function tolerate(call: Promise<void>, ...codes: readonly ErrorCode[]): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!codes.some((code) => isAppError(error, code))) throw error;
  }
}

/** Adds the device to the definition and to the running guest at once, or one by one when either has it. */
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

async function detach(
  iface: string,
  alias: string,
  { facts, session, deps }: StepContext,
): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  const before = reportedUnplugRequests(findByName(facts.ifaces, iface)?.reported);
  const undoRecord = deps.unplugRequests.record(facts.vmi.metadata.uid ?? "", iface, before);
  try {
    const live = connection.detachDevice(name, alias, "live");
    // The device is gone already, or an earlier request is still pending in the guest.
    await tolerate(live, "LIBVIRT_DEVICE_MISSING", "LIBVIRT_UNPLUG_PENDING");
  } catch (error) {
    // When the connection is lost, the guest may have received the request.
    if (!isLost(error)) undoRecord();
    throw error;
  }
}

/** Stores the NIC's addresses on disk before wiring takes them off the NIC. */
async function storeAddresses(
  podInterfaceName: string,
  { pod, session, deps }: StepContext,
): Promise<void> {
  const row = await deps.podNetwork.readAddresses(session.launcher.netns, podInterfaceName);
  if (findIpv6Gateway(row) !== undefined && row.gatewayMac === undefined) {
    deps.log.warn("cannot answer for the IPv6 gateway, because its MAC is unknown", {
      link: podInterfaceName,
    });
  }
  await deps.addressStore.write(pod.uid, row);
}

async function perform(action: EffectiveAction, context: StepContext): Promise<void> {
  const { facts, session, deps } = context;
  const { netns } = session.launcher;
  switch (action.kind) {
    case "rememberAddresses":
      await storeAddresses(action.podInterfaceName, context);
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
      await attach(toAlias(action.iface), action.xml, context);
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

export function isOnDevice({ kind }: NodeAction): boolean {
  return ON_DEVICE.includes(kind);
}

type StepWait = ReturnType<NonNullable<NodeStep["wait"]>>;

function limitRepairs(action: EffectiveAction, step: Step, { facts, deps }: StepContext): StepWait {
  if (action.kind !== "wireTap" || deps.stepBackoff.findHeld(step) !== undefined) return undefined;
  if (deps.wiringBudget.take(facts.vmi, action.iface)) return undefined;
  return { shown: { ...LINKS_KEEP_CHANGING, attempts: 0 }, pauseMs: WIRING_REFILL_MS };
}

function buildWaitingStep(
  action: Extract<IfaceAction, { kind: "wait" }>,
  { facts }: StepContext,
): NodeStep {
  const shown = blockedReasonOfWait(action, facts);
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: `wait ${action.iface}`,
    inputs: "",
    ifaces: [action.iface],
    isOnDevice: false,
    perform: () => Promise.resolve(),
    explain: () => shown,
    log: () => undefined,
    wait: () => ({ shown, pauseMs: action.forMs }),
  };
}

export function stepNameOf({ kind, iface }: Pick<IfaceAction, "kind" | "iface">): string {
  return `${kind} ${iface}`;
}

/** Builds the step of an action. All NICs are part of its inputs, because unplugging another one may free what it needs. */
export function buildIfaceStep(action: IfaceAction, context: StepContext): NodeStep {
  if (action.kind === "wait") return buildWaitingStep(action, context);
  const { facts, deps } = context;
  const { kind, iface } = action;
  const nics = facts.domain?.facts.nics.map(({ alias }) => alias) ?? [];
  const step: Step = {
    scope: facts.vmi.metadata.uid ?? "",
    name: stepNameOf(action),
    inputs: JSON.stringify([action, nics]),
  };
  const reported = findByName(facts.ifaces, iface)?.reported;
  return {
    ...step,
    ifaces: [iface],
    isOnDevice: isOnDevice(action),
    perform: () => performTimed(action, context, () => perform(action, context)),
    explain: (error) => blockedReasonOfFailure(kind, error, reported),
    log: ({ shown: { attempts: attempt }, error: err }) => {
      // The pass as a whole reports a lost connection.
      if (!isLost(err)) deps.log.warn("step failed", { action: kind, iface, attempt, err });
    },
    wait: () => limitRepairs(action, step, context),
  };
}
