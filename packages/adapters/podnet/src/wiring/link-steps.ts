// SPDX-License-Identifier: Apache-2.0
// Steps of a wiring: changes of links, and whether each is already done.
import type { BridgeWiring } from "@patchbay/core/nics";
import type { LinkChange, LinkSettings, WiredLink } from "../links.ts";

type OnBridge = Pick<BridgeWiring, "bridgeName">;
/** `floods`: unset leaves flooding as it is. */
type PortOptions = OnBridge & {
  readonly floods?: boolean;
  readonly passesSwitchFrames?: boolean;
};

export interface Step {
  readonly isDone: boolean;
  readonly change: LinkChange;
}

export function missingChanges(steps: readonly Step[]): readonly LinkChange[] {
  return steps.flatMap(({ isDone, change }) => (isDone ? [] : [change]));
}

export function linkStep(isDone: boolean, link: string, settings: LinkSettings): Step {
  return { isDone, change: { op: "setLink", link, settings } };
}

export function portSteps(
  port: WiredLink | undefined,
  name: string,
  { floods, passesSwitchFrames = false, ...wiring }: PortOptions,
): readonly Step[] {
  const isPort = port?.master === wiring.bridgeName;
  const doesFlood = !isPort || port.flooding;
  const isFloodingRight = floods === undefined || floods === doesFlood;
  const doesPass = isPort && port.passesSwitchFrames;
  return [
    linkStep(isPort, name, { master: wiring.bridgeName }),
    linkStep(isPort && !port.learning, name, { learning: false }),
    ...(isFloodingRight ? [] : [linkStep(false, name, { flooding: floods })]),
    ...(passesSwitchFrames === doesPass ? [] : [linkStep(false, name, { passesSwitchFrames })]),
    linkStep(port?.up === true, name, { up: true }),
  ];
}

/** The guest owns the addresses. The address generation mode is not observed; it counts as set without addresses. */
export function removeAddressSteps(port: WiredLink, wiring: OnBridge): readonly Step[] {
  const isDone = port.master === wiring.bridgeName && port.addresses.length === 0;
  return [
    linkStep(isDone, port.name, { addressGeneration: "none" }),
    { isDone, change: { op: "flushAddresses", link: port.name } },
  ];
}

/** Fixed when the tap is created. */
export type Tap = Pick<BridgeWiring, "owner" | "queues">;
type TapWiring = Pick<BridgeWiring, "bridgeName" | "tapName" | "mtu" | "awaitedIn"> & {
  readonly passesSwitchFrames?: boolean;
};

export const ANY_TAP: Tap = { owner: 0, queues: 1 };

export function tapSteps(
  tap: WiredLink | undefined,
  { owner, queues }: Tap,
  wiring: TapWiring,
): readonly Step[] {
  const { tapName: name, mtu } = wiring;
  // QEMU opens a multi-queue tap once per queue. A single-queue tap refuses that, and the reverse.
  const isMultiQueue = queues > 1;
  return [
    { isDone: tap !== undefined, change: { op: "addTap", link: name, owner, isMultiQueue } },
    ...(tap === undefined
      ? [linkStep(false, name, { addressGeneration: "none" })]
      : removeAddressSteps(tap, wiring)),
    linkStep(tap?.mtu === mtu, name, { mtu }),
    // A tap that is not read yet queues up to 1000 frames, which are stale when the guest arrives.
    ...portSteps(tap, name, { ...wiring, floods: wiring.awaitedIn === undefined }),
  ];
}
