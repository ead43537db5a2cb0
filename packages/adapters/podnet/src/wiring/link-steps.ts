// SPDX-License-Identifier: Apache-2.0
// The steps of which wirings are made: a change of a link, and whether it is done.
import type { BridgeWiring } from "@patchbay/core";
import type { LinkChange, LinkSettings } from "../link-change.ts";
import type { WiredLink } from "../links.ts";

type OnBridge = Pick<BridgeWiring, "bridgeName">;
/** `floods`: frames to all leave by it; absent: as it is. */
type AsPort = OnBridge & {
  readonly floods?: boolean;
  /** Whether frames for the next bridge pass; unset: they do not. */
  readonly passesSwitchFrames?: boolean;
};

/** A change, and whether what it makes is there. */
export interface Step {
  readonly isDone: boolean;
  readonly change: LinkChange;
}

/** What is left to do. */
export function changesOf(steps: readonly Step[]): readonly LinkChange[] {
  return steps.flatMap(({ isDone, change }) => (isDone ? [] : [change]));
}

/** A step that sets up a link. */
export function setting(isDone: boolean, link: string, settings: LinkSettings): Step {
  return { isDone, change: { op: "setLink", link, settings } };
}

/** Steps that make a link a port of the bridge, its own ones before. What cannot be seen counts as done when the next can be. */
export function portSteps(
  port: WiredLink | undefined,
  name: string,
  { floods, passesSwitchFrames = false, ...wiring }: AsPort,
): readonly Step[] {
  const isPort = port?.master === wiring.bridgeName;
  // A port floods from when it is one.
  const doesFlood = !isPort || port.flooding;
  const isRight = floods === undefined || floods === doesFlood;
  // A new port passes none of them.
  const doesPass = isPort && port.passesSwitchFrames;
  return [
    setting(isPort, name, { master: wiring.bridgeName }),
    setting(isPort && !port.learning, name, { learning: false }),
    ...(isRight ? [] : [setting(false, name, { flooding: floods })]),
    ...(passesSwitchFrames === doesPass ? [] : [setting(false, name, { passesSwitchFrames })]),
    setting(port?.up === true, name, { up: true }),
  ];
}

/** The guest owns the addresses; the pod must have none on this network. */
export function silenceSteps(port: WiredLink, wiring: OnBridge): readonly Step[] {
  const isDone = port.master === wiring.bridgeName && port.addresses.length === 0;
  return [
    setting(isDone, port.name, { addressGeneration: "none" }),
    { isDone, change: { op: "flushAddresses", link: port.name } },
  ];
}
