// SPDX-License-Identifier: Apache-2.0
// Default routes of a pod that an attachment replaces, and that return when it is removed. Source: NPWG 1.3 section
// 4.1.2.1.9; Multus, `default-route`.
import { findGateways, type NetworkSelection } from "@patchbay/api/annotations";
import { parseIp } from "@patchbay/api/values";
import type { DefaultRoute } from "../../interfaces/node/default-routes.ts";

export interface RouteClaim {
  readonly interfaceName: string;
  /** At most one per address family. */
  readonly gateways: readonly string[];
  /** Routes of other NICs that this attachment or an earlier one replaced. */
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

/** Returns the earlier element that requests default routes. Only one element may. */
export function findEarlierRouteRequest(
  elements: readonly NetworkSelection[],
  element: NetworkSelection,
): NetworkSelection | undefined {
  const first = elements.find((other) => findGateways(other).length > 0);
  return first === element ? undefined : first;
}

/** Routes to delete before the attachment's own can be set. */
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
 * Routes that the attachment must be able to restore: those that it replaces, and those that earlier attachments
 * replaced, which may be removed first. Routes of its own NIC disappear with it.
 */
export function routesToRemember(
  conflicting: readonly DefaultRoute[],
  claim: Pick<RouteClaim, "gateways" | "interfaceName">,
  others: readonly RouteClaim[],
): readonly DefaultRoute[] {
  const all = [...conflicting, ...others.flatMap(({ replaced }) => replaced)].filter(
    (route) => isClaimedBy(claim, route) && route.link !== claim.interfaceName,
  );
  return all.filter(
    ({ words: routeBytes }, index) => all.findIndex((each) => each.words === routeBytes) === index,
  );
}

/**
 * Routes to restore after an attachment is removed. If another one claims the address family, only that one's routes
 * return. `others` are the remaining attachments in the order of their ADD.
 */
export function routesToRestore(
  leaving: RouteClaim,
  others: readonly RouteClaim[],
): readonly DefaultRoute[] {
  return leaving.replaced.filter((route) => {
    const successor = others.findLast((other) => isClaimedBy(other, route));
    return successor === undefined || successor.interfaceName === route.link;
  });
}
