// SPDX-License-Identifier: Apache-2.0
// Which default routes of a pod give way to one that an attachment asks for, and which come back when it goes?
// Source: NPWG 1.3 section 4.1.2.1.9; Multus, `default-route`.
import { gatewaysOf, parseIp, type NetworkSelection } from "@patchbay/api";
import type { DefaultRoute } from "../../ports/node/default-routes.ts";

/** What an attachment has done to a pod's default routes. */
export interface RouteClaim {
  /** Its NIC. */
  readonly interfaceName: string;
  /** At most one of each family. */
  readonly gateways: readonly string[];
  /** Routes that gave way to it, or to one before it, by other NICs. */
  readonly replaced: readonly DefaultRoute[];
}

/** Families of addresses. */
function versionsOf(gateways: readonly string[]): readonly (4 | 6 | undefined)[] {
  return gateways.map((gateway) => parseIp(gateway)?.version);
}

function isClaimedBy(
  { gateways }: Pick<RouteClaim, "gateways">,
  { version }: DefaultRoute,
): boolean {
  return versionsOf(gateways).includes(version);
}

/** The NIC of an element that comes first and asks for default routes too; undefined: none. Only one element may. */
export function findRouteRival(
  elements: readonly NetworkSelection[],
  element: NetworkSelection,
): NetworkSelection | undefined {
  const first = elements.find((other) => gatewaysOf(other).length > 0);
  return first === element ? undefined : first;
}

/** The routes that must go before an attachment's own can be set: those of its families. */
export function routesInTheWay(
  present: readonly DefaultRoute[],
  claim: Pick<RouteClaim, "gateways" | "interfaceName">,
): readonly DefaultRoute[] {
  return present.filter(
    (route) =>
      isClaimedBy(claim, route) &&
      !(route.link === claim.interfaceName && claim.gateways.includes(route.gateway ?? "")),
  );
}

/**
 * What an attachment must remember: the routes that give way to it, and those that gave way to others before, which may go
 * before it does. A route by its own NIC goes with that NIC.
 */
export function routesToRemember(
  inTheWay: readonly DefaultRoute[],
  claim: Pick<RouteClaim, "gateways" | "interfaceName">,
  others: readonly RouteClaim[],
): readonly DefaultRoute[] {
  const all = [...inTheWay, ...others.flatMap(({ replaced }) => replaced)].filter(
    (route) => isClaimedBy(claim, route) && route.link !== claim.interfaceName,
  );
  return all.filter(({ words }, index) => all.findIndex((each) => each.words === words) === index);
}

/**
 * The routes that come back when an attachment has gone. While another one claims the family, only that one's own do.
 * `others`: those that stay, in the order in which they were made.
 */
export function routesToRestore(
  leaving: RouteClaim,
  others: readonly RouteClaim[],
): readonly DefaultRoute[] {
  return leaving.replaced.filter((route) => {
    const heir = others.findLast((other) => isClaimedBy(other, route));
    return heir === undefined || heir.interfaceName === route.link;
  });
}
