// SPDX-License-Identifier: Apache-2.0
// Makes cloud-init's disks here what they are where the guest comes from: its hooks, which run beside this launcher too, are
// asked for them again.
import { makeCloudInitDisks } from "../hooks/cloud-init-disks.ts";
import type { Arrival } from "./arrive.ts";

/** Whether a hook might say what is on one of its disks. */
function mayBeHooked({ vmi, place }: Arrival): boolean {
  const { sidecars = [] } = place.session.launcher;
  const { volumes = [] } = vmi.spec;
  const disks = volumes.map(({ cloudInitNoCloud, cloudInitConfigDrive }) => {
    return cloudInitNoCloud ?? cloudInitConfigDrive;
  });
  return sidecars.length > 0 && disks.some((disk) => disk !== undefined);
}

/**
 * Whether its disks are ready; else its hooks are being asked, and wake the loop. May be repeated.
 * @throws AppError with what kept them from answering
 */
export function hasItsDisks(arrival: Arrival): boolean {
  if (!mayBeHooked(arrival)) return true;
  const { vmi, place, deps } = arrival;
  const { pod, session, wake } = place;
  const { sidecars = [] } = session.launcher;
  const state = deps.guestHooks.look({ pod, sidecars, vmi, made: [], domainXml: undefined }, wake);
  if (state.kind === "answered") makeCloudInitDisks(state.cloudInit, { pod, deps });
  if (state.kind !== "failed") return state.kind === "answered";
  deps.guestHooks.retry(pod);
  throw state.error;
}
