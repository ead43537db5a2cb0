// SPDX-License-Identifier: Apache-2.0
// Which changes of a pod's links are worth a look? Those of links that carry an iface, or that are called as ours are.
import { isOwnLinkName, namesOf } from "../names.ts";
import type { IfaceFacts } from "../facts.ts";

/** A link of which something changed. */
interface ChangedLink {
  readonly index: number;
  readonly name?: string;
}

/** A link that was seen. */
interface SeenLink {
  readonly name: string;
  readonly index: number;
}

/** The NIC of an attachment that is being made changes often, and its end is told by others. */
function namesFor(iface: IfaceFacts): readonly string[] {
  const { podInterfaceName, tapName } = namesOf(iface.name, iface.podInterfaceName);
  const { tap, bridge } = iface.links;
  if (iface.attachment?.state !== "Attached" && !tap && !bridge) return [];
  return [podInterfaceName, iface.links.tapName ?? tapName];
}

/**
 * Judges changes after a look that saw these links: of what it saw by their indices, since a link may be renamed; of what
 * it missed by their names. `unknown` is any change.
 */
export function linkFilterOf(
  ifaces: readonly IfaceFacts[],
  links: readonly SeenLink[],
): (changes: readonly ChangedLink[] | "unknown") => boolean {
  const names = new Set(ifaces.flatMap(namesFor));
  const isRelevant = (name: string): boolean => names.has(name) || isOwnLinkName(name);
  const indices = new Set(links.filter(({ name }) => isRelevant(name)).map(({ index }) => index));
  return (changes) =>
    changes === "unknown" ||
    changes.some(
      ({ index, name }) => indices.has(index) || (name !== undefined && isRelevant(name)),
    );
}
