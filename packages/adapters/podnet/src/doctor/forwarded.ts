// SPDX-License-Identifier: Apache-2.0
// A ping of the guest through the node to the node's own gateway, and one of the node itself to compare it with.
import type { ForwardedPing } from "@patchbay/core";
import type { Netlink, NetnsHandle } from "@patchbay/core/ports";
import { parseIp } from "@patchbay/api";
import { addressBytes } from "../netlink/change-messages.ts";
import { passes, ping } from "./frames.ts";
import type { NodeRoute } from "./surroundings.ts";

/** How long one exchange listens, milliseconds, and how many there are at most. */
const [HEARING_MS, TIMES] = [200, 2];
/** Where the source address of a frame by IPv4 is. */
const SOURCE_AT = 26;

/** What the ping is sent from. */
export interface ForwardedEnds {
  readonly pod: NetnsHandle;
  readonly node: NetnsHandle;
  /** The pod NIC. */
  readonly nic: string;
  /** Of the guest or the pod, as the network sees it. */
  readonly mac: string;
  readonly source: string;
  /** MAC of the node as the guest's gateway. */
  readonly via: string;
  readonly newId: () => number;
}

function hasSource(frame: Uint8Array, address: string): boolean {
  const ip = parseIp(address);
  if (ip === undefined) return false;
  return Buffer.from(addressBytes(ip)).equals(
    Buffer.from(frame.subarray(SOURCE_AT, SOURCE_AT + 4)),
  );
}

/** Sends both, at most twice, until the guest's is answered. */
export async function pingThroughNode(
  netlink: Netlink,
  { pod, node, nic, mac, source, via, newId }: ForwardedEnds,
  route: NodeRoute,
): Promise<ForwardedPing> {
  const { link, gateway } = route;
  const [POD, NODE] = [0, 1];
  const guests = ping({ from: mac, to: via, id: newId() }, [source, gateway]);
  const own = ping({ from: route.mac, to: route.gatewayMac, id: newId() }, [
    route.address,
    gateway,
  ]);
  let found: ForwardedPing = { link, gateway, left: "no", isAnswered: false, answersNode: false };
  for (let round = 1; round <= TIMES && !found.isAnswered; round += 1) {
    const { frames } = await netlink.exchangeFrames({
      ports: [
        { netns: pod, link: nic },
        { netns: node, link },
      ],
      sends: [
        { port: POD, frame: guests.frame },
        { port: NODE, frame: own.frame },
      ],
      tests: [guests.asked, guests.answered, own.answered],
      ms: HEARING_MS,
    });
    const atNode = frames.filter(({ port }) => port === NODE).map(({ frame }) => frame);
    const leaving = atNode.find((frame) => passes(frame, guests.asked));
    const left =
      leaving === undefined ? found.left : hasSource(leaving, source) ? "asGuest" : "asNode";
    const isAnswered = frames.some(
      ({ port, frame }) => port === POD && passes(frame, guests.answered),
    );
    const answersNode = found.answersNode || atNode.some((frame) => passes(frame, own.answered));
    found = { link, gateway, left, isAnswered, answersNode };
  }
  return found;
}
