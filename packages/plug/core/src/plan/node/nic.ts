// SPDX-License-Identifier: Apache-2.0
// The device of an iface, as libvirt is told of it.
import { names } from "@patchbay/api";
import { parsePciAddress, type NicDefinition } from "@patchbay/domain";
import type { IfaceFacts } from "../../iface/facts.ts";
import { socketLinkOf } from "../../iface/links/socket-link.ts";
import { moduleOf } from "../../iface/links/wiring.ts";
import { macOf } from "../../iface/mac.ts";
import { namesOf } from "../../iface/names.ts";
import type { NicPlace } from "../../pcie/live-places.ts";
import { modelOf } from "../../pcie/topology.ts";

/** What of a NIC its specification does not say. */
export interface NicMaking extends NicPlace {
  /** Of use at a start only. */
  readonly hasBootRom?: true;
}

/** A tap of several queues cannot be opened for one, nor one of a single queue for several. Source: linux/drivers/net/tun.c */
function queuesFor({ takesQueues }: IfaceFacts["links"], wanted: number): number {
  if (takesQueues === undefined) return wanted;
  return takesQueues === "one" ? 1 : Math.max(wanted, 2);
}

/** The NIC of an iface that is wired and has its MAC. */
export function nicDefinitionOf(facts: IfaceFacts, place: NicMaking): NicDefinition {
  const { tapName, alias } = namesOf(facts.name, facts.podInterfaceName);
  const { links } = facts;
  const { bootOrder, acpiIndex } = facts.iface ?? {};
  return {
    alias,
    mac: macOf(facts),
    model: modelOf(facts.iface),
    ...(moduleOf(facts).kind === "vhostuser"
      ? { socketPath: `${names.LAUNCHER_DIR}/${socketLinkOf(facts.podInterfaceName)}` }
      : { tapName: links.tapName ?? tapName }),
    mtu: links.mtu,
    linkUp: facts.iface?.state !== "down",
    ...place,
    queues: queuesFor(links, place.queues),
    ...(bootOrder === undefined ? {} : { bootOrder }),
    ...(acpiIndex === undefined ? {} : { acpiIndex }),
  };
}

/** The device as the guest has it, but for its link; undefined while there is none, or libvirt has not placed it. */
export function liveNicOf(iface: IfaceFacts, linkUp: boolean): NicDefinition | undefined {
  const { device } = iface;
  const pciAddress = parsePciAddress(device?.pciAddress ?? "");
  if (device === undefined || pciAddress === undefined) return undefined;
  const { queues, mac, hasBootRom, mtu = iface.links.mtu } = device;
  const rom = hasBootRom === undefined ? {} : { hasBootRom };
  return { ...nicDefinitionOf(iface, { pciAddress, queues, ...rom }), mac, mtu, linkUp };
}
