// SPDX-License-Identifier: Apache-2.0
// Which networks does a request name that were not named before, and may who asks use them?
import { names, type Network, type VmiSpec } from "@patchbay/api";
import { findByName, networksOf } from "@patchbay/core";
import type { Deps } from "../deps.ts";
import { foreignNetworkProblem } from "../networks.ts";
import type { AdmissionRequest, Verdict } from "./review.ts";

/** The specification of a request, and what was stored before. */
export interface Specs {
  readonly spec: VmiSpec;
  readonly old: VmiSpec | undefined;
}

/** The networks that are not those that were named before, in the order of the specification. */
export function newNetworks({ spec, old }: Specs): readonly Network[] {
  return networksOf(spec).filter(({ name, multus }) => {
    const before = findByName(old?.networks, name);
    return before?.multus?.networkName !== multus?.networkName;
  });
}

/** The refusal, or undefined; what was named before is not asked about again. */
export async function refuseForeignNetworks(
  deps: Deps,
  request: AdmissionRequest,
  specs: Specs,
): Promise<Verdict | undefined> {
  const { namespace, user } = request;
  // virt-api has asked about its request's user itself, virt-controller takes a VM's networks over.
  if (user.name.startsWith(names.SERVICE_ACCOUNT_PREFIX)) return undefined;
  for (const network of newNetworks(specs)) {
    const networkName = network.multus?.networkName ?? "";
    const message = await foreignNetworkProblem(deps, user, { networkName, namespace });
    if (message !== undefined) return { allowed: false, code: 403, message, causes: [] };
  }
  return undefined;
}
