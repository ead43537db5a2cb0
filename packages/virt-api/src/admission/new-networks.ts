// SPDX-License-Identifier: Apache-2.0
// Whether whoever names a network of another namespace may use it.
import { networksOf } from "@patchbay/core";
import type { Deps } from "../routes/call.ts";
import { foreignNetworkProblem } from "../networks/foreign.ts";
import type { AdmissionRequest, Verdict } from "./review.ts";
import { isNewNetwork, type Specs } from "./warnings.ts";

/** Patchbay's own services: virt-api has asked about a request's user itself, virt-controller takes a VM's networks over. */
const OWN_ACCOUNTS = "system:serviceaccount:patchbay:";

/** The refusal, or undefined; what was named before is not asked about again. */
export async function refuseForeignNetworks(
  deps: Deps,
  request: AdmissionRequest,
  specs: Specs,
): Promise<Verdict | undefined> {
  const { namespace, user } = request;
  if (user.name.startsWith(OWN_ACCOUNTS)) return undefined;
  for (const network of networksOf(specs.spec)) {
    const networkName = network.multus?.networkName ?? "";
    if (!isNewNetwork(network, specs.old)) continue;
    const message = await foreignNetworkProblem(deps, user, { networkName, namespace });
    if (message !== undefined) return { allowed: false, code: 403, message, causes: [] };
  }
  return undefined;
}
