// SPDX-License-Identifier: Apache-2.0
// Moves a pod's default routes to an attachment that requests them, and restores the previous routes after a detach.
// Source: NPWG 1.3 section 4.1.2.1.9.
import { names } from "@patchbay/api";
import { findGateways } from "@patchbay/api/annotations";
import type { JournalRow } from "@patchbay/cni";
import { AppError, isAppError } from "@patchbay/base";
import {
  findEarlierRouteRequest,
  findConflictingRoutes,
  listRoutesToRecord,
  listRoutesToRestore,
  type RouteClaim,
  type WantedAttachment,
} from "@patchbay/core/nics";
import type { OpenNetns } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import { findVmiOf, type PodFacts } from "../observe.ts";
import { reportRouteLost } from "../report.ts";
import { openRowNetns } from "./netns.ts";

/** Maximum number of replaced routes in a journal row. A privileged container could create any number of routes. */
const REPLACED_ROUTES_MAX = 16;

function toRejection({ network }: WantedAttachment, reason: string): AppError {
  return new AppError("CNI_REQUEST_INVALID", { network, reason: `default-route: ${reason}` });
}

/** @throws AppError with CNI_REQUEST_INVALID if the attachment must not replace the pod's default routes */
export async function assertMayRoute(
  wanted: WantedAttachment,
  facts: PodFacts,
  deps: Deps,
): Promise<void> {
  if (findGateways(wanted.selection).length === 0) return;
  const { networks } = facts.attachments;
  const earlierElement = networks.ok
    ? findEarlierRouteRequest(networks.elements, wanted.selection)
    : undefined;
  if (earlierElement !== undefined) {
    throw toRejection(
      wanted,
      `only one element may request it, and the element of ${earlierElement.name} already does`,
    );
  }
  if ((await findVmiOf(facts.pod, deps)) === undefined) return;
  // The launcher needs its own default routes for the guest's masqueraded traffic and for the pod's probes.
  const explanation = "a launcher must keep its own default routes";
  throw toRejection(
    wanted,
    `${explanation}; name the guest's interface in the annotation ${names.DEFAULT_ROUTE_ANNOTATION} of the VM's template, and configure its gateway in the network's ipam`,
  );
}

export function buildInitialClaim({
  selection,
}: Pick<WantedAttachment, "selection">): Pick<JournalRow, "defaultRoute"> {
  const gateways = findGateways(selection);
  return gateways.length === 0 ? {} : { defaultRoute: { gateways, replaced: [] } };
}

function toClaim({ defaultRoute, request }: JournalRow): RouteClaim | undefined {
  return defaultRoute && { interfaceName: request.interfaceName, ...defaultRoute };
}

async function listOtherClaims(row: JournalRow, deps: Deps): Promise<readonly RouteClaim[]> {
  const { containerId, interfaceName } = row.request;
  const rows = await deps.journal.list(row.podUid);
  return rows
    .filter(({ request, state }) => request.containerId === containerId && state !== "removed")
    .filter(({ request }) => request.interfaceName !== interfaceName)
    .flatMap((other) => toClaim(other) ?? []);
}

function describeAddresses({ result, request }: JournalRow): string {
  const addresses = result?.ips?.map(({ address }) => address).join(", ") ?? "";
  return `the network assigned ${request.interfaceName} ${addresses === "" ? "no address" : addresses}`;
}

async function setRoutes(
  claim: RouteClaim,
  { row, netns }: { readonly row: JournalRow; readonly netns: OpenNetns },
  { defaultRoutes }: Deps,
): Promise<void> {
  const conflicting = findConflictingRoutes(await defaultRoutes.list(netns), claim);
  for (const route of conflicting) await defaultRoutes.remove(netns, route);
  for (const gateway of claim.gateways) {
    try {
      await defaultRoutes.add(netns, { link: claim.interfaceName, gateway });
    } catch (cause) {
      if (!isAppError(cause, "PODNET_FAILED")) throw cause;
      const unmetRequest = `a default route by ${gateway}, which must be reached by an address of the NIC; ${describeAddresses(row)} (${cause.message})`;
      throw new AppError("CNI_REQUEST_NOT_MET", { what: unmetRequest }, { cause });
    }
  }
}

/**
 * Moves the default routes to a new attachment. Stores the replaced routes in the journal row before removing them.
 * @throws AppError with CNI_REQUEST_NOT_MET, SANDBOX_NOT_FOUND, PODNET_FAILED
 */
export async function claimDefaultRoutes(
  row: JournalRow,
  saveRow: (row: JournalRow) => Promise<void>,
  deps: Deps,
): Promise<void> {
  const claim = toClaim(row);
  if (claim === undefined) return;
  const netns = openRowNetns(row, deps);
  if (netns === undefined) {
    throw new AppError("SANDBOX_NOT_FOUND", { pod: `${row.podNamespace}/${row.podName}` });
  }
  try {
    const conflicting = findConflictingRoutes(await deps.defaultRoutes.list(netns), claim);
    const replaced = listRoutesToRecord(conflicting, claim, await listOtherClaims(row, deps));
    if (replaced.length > REPLACED_ROUTES_MAX) {
      const unmetRequest = `the default routes of the pod, which has more than ${String(REPLACED_ROUTES_MAX)} already`;
      throw new AppError("CNI_REQUEST_NOT_MET", { what: unmetRequest });
    }
    await saveRow({ ...row, defaultRoute: { gateways: claim.gateways, replaced } });
    await setRoutes(claim, { row, netns }, deps);
  } finally {
    netns.close();
  }
}

/** Restores replaced routes. A failure is only reported, because the pod may have lost the NIC or address that the route needs. */
async function restore(
  claim: RouteClaim,
  context: { readonly row: JournalRow; readonly facts: PodFacts; readonly netns: OpenNetns },
  deps: Deps,
): Promise<void> {
  const { row, facts, netns } = context;
  for (const route of listRoutesToRestore(claim, await listOtherClaims(row, deps))) {
    try {
      await deps.defaultRoutes.restore(netns, route);
    } catch (error) {
      if (!isAppError(error, "PODNET_FAILED")) throw error;
      reportRouteLost(row, { facts, route, reason: error.message }, deps);
    }
  }
}

export async function restoreRoutes(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  const claim = toClaim(row);
  if (claim === undefined || facts.attachments.podState === "ended") return;
  const netns = openRowNetns(row, deps);
  if (netns === undefined) return; // The routes no longer exist, because the namespace was deleted.
  try {
    const ownRoutes = (await deps.defaultRoutes.list(netns)).filter(
      ({ link, gateway = "" }) => link === claim.interfaceName && claim.gateways.includes(gateway),
    );
    for (const route of ownRoutes) await deps.defaultRoutes.remove(netns, route);
    await restore(claim, { row, facts, netns }, deps);
  } finally {
    netns.close();
  }
}
