// SPDX-License-Identifier: Apache-2.0
// Which changes make the tap of a guest's NIC, as a port of a bridge in the pod? Why each: docs/design/pod-links.md.
import type { BridgeWiring } from "@patchbay/core";
import type { WiredLink } from "../links.ts";
import { portSteps, setting, silenceSteps, type Step } from "./link-steps.ts";

/** How the tap is made; it stays so. */
export type Tap = Pick<BridgeWiring, "owner" | "queues">;
/** What a tap on a bridge depends on, whatever else is on the bridge. */
type TapOnBridge = Pick<BridgeWiring, "bridgeName" | "tapName" | "mtu" | "awaitedIn"> & {
  readonly passesSwitchFrames?: boolean;
};

/** A tap that is there is taken as it was made. */
export const ANY_TAP: Tap = { owner: 0, queues: 1 };

/** A tap that is a port of the bridge. */
export function tapSteps(
  tap: WiredLink | undefined,
  { owner, queues }: Tap,
  wiring: TapOnBridge,
): readonly Step[] {
  const { tapName: name, mtu } = wiring;
  // QEMU opens a tap of several queues once for each; one of a single queue refuses that, and the reverse.
  const takesMany = queues > 1;
  return [
    { isDone: tap !== undefined, change: { op: "addTap", link: name, owner, takesMany } },
    ...(tap === undefined
      ? [setting(false, name, { addressGeneration: "none" })]
      : silenceSteps(tap, wiring)),
    setting(tap?.mtu === mtu, name, { mtu }),
    // A tap that nobody reads yet keeps what comes, up to 1000 frames of long ago.
    ...portSteps(tap, name, { ...wiring, floods: wiring.awaitedIn === undefined }),
  ];
}
