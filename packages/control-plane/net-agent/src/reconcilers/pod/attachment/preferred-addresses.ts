// SPDX-License-Identifier: Apache-2.0
// Requests a NIC's previous addresses from IPAM plugins that support requests.
import { parsePreferredIps, type NetworkSelection } from "@patchbay/api/annotations";
import { isJsonObject } from "@patchbay/api/json";
import { hasCapability, withCniArgs } from "@patchbay/cni";
import { isAppError } from "@patchbay/base";
import type { AttachmentRequest, NetworkConfigList } from "@patchbay/core/interfaces";

export interface PreferredAddresses {
  readonly ips: readonly string[];
  /** CNI request with the addresses; unset if the network does not support requested addresses. */
  readonly request?: AttachmentRequest;
}

/** IPAM plugins that assign addresses unchecked, or by MAC. Source: CNI plugins, plugins/ipam/static, plugins/ipam/dhcp. */
const UNSUPPORTED_IPAMS: readonly string[] = ["static", "dhcp"];
/** IPAM plugin that accepts `args.cni.ips` without a declared capability. Source: CNI plugins, plugins/ipam/host-local. */
const ARGS_IPAM = "host-local";

function listIpamTypes({ plugins }: NetworkConfigList): readonly unknown[] {
  return plugins.flatMap(({ ipam }) => (isJsonObject(ipam) ? [ipam["type"]] : []));
}

function withRequestedIps(
  request: AttachmentRequest,
  ips: readonly string[],
): AttachmentRequest | undefined {
  const { config, capabilityArgs } = request;
  const ipams = listIpamTypes(config);
  if (ipams.some((ipam) => UNSUPPORTED_IPAMS.some((each) => each === ipam))) return undefined;
  if (hasCapability(config, "ips")) {
    return { ...request, capabilityArgs: { ...capabilityArgs, ips } };
  }
  return ipams.includes(ARGS_IPAM)
    ? { ...request, config: withCniArgs(config, { ips }) }
    : undefined;
}

/** Returns the previous addresses, or undefined if there are no previous addresses or the selection requests addresses. */
export function readPreferredAddresses(
  selection: NetworkSelection,
  request: AttachmentRequest,
): PreferredAddresses | undefined {
  const requestedCount = selection.ips?.length ?? 0;
  const ips = parsePreferredIps(selection);
  const hasRequest = requestedCount > 0 || selection["cni-args"]?.["ips"] !== undefined;
  if (hasRequest || ips.length === 0) return undefined;
  const preferredRequest = withRequestedIps(request, ips);
  return { ips, ...(preferredRequest === undefined ? {} : { request: preferredRequest }) };
}

/** CNI error code for a transient failure. Source: CNI SPEC 1.1, "Error". */
const CNI_TRY_AGAIN_LATER = 11;

export function mayBeRejection(error: unknown): boolean {
  return isAppError(error, "CNI_PLUGIN_FAILED") && error.details["cniCode"] !== CNI_TRY_AGAIN_LATER;
}
