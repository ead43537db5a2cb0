// SPDX-License-Identifier: Apache-2.0
// A pod's default routes that an attachment replaces; they are restored when the attachment is removed. Source: NPWG 1.3
// section 4.1.2.1.9; Multus, `default-route`.
import { findGateways, type NetworkSelection } from "@patchbay/api/annotations";
import { parseIp } from "@patchbay/api/values";
import type { DefaultRoute } from "../../interfaces/node/default-routes.ts";

export interface RouteClaim {
  readonly interfaceName: string;
  /** Gateways of the claimed default routes, at most one for each address family. */
  readonly gateways: readonly string[];
  /** Default routes of other NICs that this attachment or an earlier one has replaced. */
  readonly replaced: readonly DefaultRoute[];
}

function listFamilies(gateways: readonly string[]): readonly (4 | 6 | undefined)[] {
  return gateways.map((gateway) => parseIp(gateway)?.version);
}

function isClaimedBy(
  { gateways }: Pick<RouteClaim, "gateways">,
  { version }: DefaultRoute,
): boolean {
  return listFamilies(gateways).includes(version);
}

/** Returns the first element that requests default routes, unless it is `element` itself. Only the first element may request them. */
export function findEarlierRouteRequest(
  elements: readonly NetworkSelection[],
  element: NetworkSelection,
): NetworkSelection | undefined {
  const first = elements.find((other) => findGateways(other).length > 0);
  return first === element ? undefined : first;
}

export function findConflictingRoutes(
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
 * Returns the routes to restore when the attachment is removed: routes that this attachment replaces, and routes that other attachments
 * replaced, because the others may be removed earlier. Omits routes of the attachment's own NIC, which the kernel deletes with the NIC.
 */
export function listRoutesToRecord(
  conflicting: readonly DefaultRoute[],
  claim: Pick<RouteClaim, "gateways" | "interfaceName">,
  others: readonly RouteClaim[],
): readonly DefaultRoute[] {
  const candidates = [...conflicting, ...others.flatMap(({ replaced }) => replaced)].filter(
    (route) => isClaimedBy(claim, route) && route.link !== claim.interfaceName,
  );
  return candidates.filter(
    ({ words: routeBytes }, index) =>
      candidates.findIndex((each) => each.words === routeBytes) === index,
  );
}

/**
 * Returns the routes to restore after an attachment is removed. `others` are the remaining attachments in the order of their ADD. The last
 * of them that claims the default route of an address family keeps the claim. In that family, only routes through that attachment's NIC are
 * restored.
 */
export function listRoutesToRestore(
  removed: RouteClaim,
  others: readonly RouteClaim[],
): readonly DefaultRoute[] {
  return removed.replaced.filter((route) => {
    const successor = others.findLast((other) => isClaimedBy(other, route));
    return successor === undefined || successor.interfaceName === route.link;
  });
}
