// SPDX-License-Identifier: Apache-2.0
// How a NIC comes to speak vhost-user, and what it waits for: nobody else tells, since libvirt takes a device that can
// never work.
import { vhostUserOf } from "@patchbay/api";
import type { DomainFacts } from "@patchbay/domain";
import type { IfaceFacts } from "../../iface/facts.ts";
import type { SocketReason, VhostSocket } from "../../iface/links/vhost-socket.ts";
import { moduleOf } from "../../iface/links/wiring.ts";

/** Lets the launcher use a socket, by the name that its domain has. */
export interface LinkSocketAction {
  readonly kind: "linkSocket";
  readonly iface: string;
  readonly socket: VhostSocket;
}

/** What such a NIC waits for. */
export type VhostUserWait =
  | SocketReason
  | "MemoryNotShared"
  | "InterruptVectors"
  | "BackendReplaced";

/** The guest as it is, or is to be started. */
interface GuestFacts {
  readonly domain:
    | {
        readonly running: boolean;
        readonly facts: Pick<DomainFacts, "sharesMemory" | "hasNoNicVectors">;
      }
    | undefined;
  readonly useEmulation: boolean;
}

/** What keeps a NIC from speaking vhost-user; undefined: nothing, or it is another kind of NIC. */
export function vhostUserWaitOf(
  iface: IfaceFacts,
  { domain, useEmulation }: GuestFacts,
): VhostUserWait | undefined {
  if (moduleOf(iface).kind !== "vhostuser") return undefined;
  const { socketProblem } = iface.links;
  if (socketProblem !== undefined) return socketProblem.reason;
  // A domain that is still to be defined is made for it.
  if (domain?.running !== true) return undefined;
  if (!domain.facts.sharesMemory) return "MemoryNotShared";
  return useEmulation && domain.facts.hasNoNicVectors !== true ? "InterruptVectors" : undefined;
}

/** The step that comes before the device. */
export function planLinkSocket({
  name,
  podInterfaceName,
  attachment,
}: IfaceFacts): LinkSocketAction {
  const path = vhostUserOf(attachment?.deviceInfo)?.path ?? "";
  return { kind: "linkSocket", iface: name, socket: { podInterfaceName, path } };
}
