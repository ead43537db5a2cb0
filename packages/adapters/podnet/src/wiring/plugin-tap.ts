// SPDX-License-Identifier: Apache-2.0
// A tap that the network's own plugin made: it is only set up, since nobody forwards anything to one that is down.
import { AppError, type TapWiring } from "@patchbay/core";
import type { WiredLink } from "../links.ts";
import type { Pod, NetnsState, Wirer } from "./wirer.ts";

/** Kinds that a device can open. Source: libvirt docs/formatdomain, generic ethernet connection. */
const OPENABLE = ["tun", "macvtap"];

function canOpen(tap: WiredLink): boolean {
  return OPENABLE.includes(tap.kind);
}

async function wire(pod: Pod, { tapName }: TapWiring, { links }: NetnsState): Promise<void> {
  const tap = links.get(tapName);
  if (tap === undefined) throw new AppError("PODNET_LINK_MISSING", { link: tapName });
  if (!canOpen(tap)) {
    throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: tap.kind, link: tapName });
  }
  if (!tap.up) await pod.change([{ op: "setLink", link: tapName, settings: { up: true } }]);
}

export const TAP: Wirer<"tap"> = {
  isWired: ({ links }, { tapName }) => {
    const tap = links.get(tapName);
    return tap?.up === true && canOpen(tap);
  },
  wire,
  // What the plugin made is the plugin's.
  unwire: () => Promise.resolve(),
};
