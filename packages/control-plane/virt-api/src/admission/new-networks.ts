// SPDX-License-Identifier: Apache-2.0
// Access check for networks that a write adds.
import { names, type Network, type VmiSpec } from "@patchbay/api";
import { findByName, networksOf } from "@patchbay/core/nics";
import type { Deps } from "../deps.ts";
import { findForeignNetworkProblem } from "../networks.ts";
import type { AdmissionRequest, Verdict } from "./review.ts";

export interface Specs {
  readonly spec: VmiSpec;
  readonly old: VmiSpec | undefined;
}

export function listNewNetworks({ spec, old }: Specs): readonly Network[] {
  return networksOf(spec).filter(({ name, multus }) => {
    const before = findByName(old?.networks, name);
    return before?.multus?.networkName !== multus?.networkName;
  });
}

/** Returns a denial, or undefined. Does not check networks that were stored before. */
export async function denyForeignNetworks(
  deps: Deps,
  request: AdmissionRequest,
  specs: Specs,
): Promise<Verdict | undefined> {
  const { namespace, user } = request;
  // virt-api checked the user of a subresource request itself, and virt-controller copies the networks of a VM.
  if (user.name.startsWith(names.SERVICE_ACCOUNT_PREFIX)) return undefined;
  for (const network of listNewNetworks(specs)) {
    const networkName = network.multus?.networkName ?? "";
    const message = await findForeignNetworkProblem(deps, user, { networkName, namespace });
    if (message !== undefined) return { allowed: false, code: 403, message, causes: [] };
  }
  return undefined;
}
