// SPDX-License-Identifier: Apache-2.0
// Which links are ours by their names and kinds, and belong to no iface?
import type { Attachment } from "@patchbay/api";
import type { NicFacts } from "@patchbay/domain";
import type { LeftWiring } from "../../bindings/pod-wiring.ts";
import type { IfaceFacts } from "../facts.ts";
import { DEFAULT_POD_INTERFACE, namesOf, podInterfaceOfLink } from "../names.ts";

/** A link as the kernel has it. */
interface PodLink {
  readonly name: string;
  readonly kind: string;
  /** Of a tap: somebody has it open. */
  readonly carrier: boolean;
}

/** Who may have links in a pod. */
export interface LinkOwners {
  readonly ifaces: readonly IfaceFacts[];
  readonly attachments: readonly Attachment[];
  /** NICs of the domain, whoever put them there. */
  readonly nics: readonly Pick<NicFacts, "tapName">[];
}

const BRIDGE = "bridge";
const TAP = "tun";

function isOfOurKind({ name, kind }: PodLink): boolean {
  return podInterfaceOfLink(name) !== undefined && (kind === BRIDGE || kind === TAP);
}

/** NICs in the pod around which an iface has links: while it moves, and after, its tap may be called after another. */
function placesOf({ podInterfaceName, links, swap, left = [] }: IfaceFacts): readonly string[] {
  const ofTap = podInterfaceOfLink(links.tapName ?? "");
  return [podInterfaceName, ofTap ?? [], swap?.podInterfaceName ?? [], left].flat();
}

/** NICs in the pod whose links belong to somebody. */
function ownedBy({ ifaces, attachments, nics }: LinkOwners): ReadonlySet<string> {
  return new Set([
    ...ifaces.flatMap(placesOf),
    ...attachments.map(({ podInterfaceName }) => podInterfaceName),
    ...nics.flatMap(({ tapName = "" }) => podInterfaceOfLink(tapName) ?? []),
  ]);
}

/**
 * What is left of wirings that nobody knows of, by the name of the pod's NIC. A tap that somebody has open is in use, and
 * `tap0` alone is a name that anybody may give.
 */
export function orphanedWirings(
  links: readonly PodLink[],
  owners: LinkOwners,
): readonly LeftWiring[] {
  const owned = ownedBy(owners);
  const ours = links.filter(isOfOurKind);
  const around = new Set(ours.map(({ name }) => podInterfaceOfLink(name) ?? ""));
  return [...around].sort().flatMap((podInterfaceName): readonly LeftWiring[] => {
    const { bridgeName, tapName } = namesOf("", podInterfaceName);
    const has = (name: string): boolean => ours.some((link) => link.name === name);
    const isOpen = ours.some((link) => link.name === tapName && link.carrier);
    const isNobodys = podInterfaceName === DEFAULT_POD_INTERFACE && !has(bridgeName);
    if (owned.has(podInterfaceName) || isOpen || isNobodys) return [];
    return [{ kind: "bridge", podInterfaceName, bridgeName, tapName }];
  });
}
