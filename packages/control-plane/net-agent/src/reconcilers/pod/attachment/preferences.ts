// SPDX-License-Identifier: Apache-2.0
// CNI requests for a NIC's previous MAC and addresses. If a network rejects or ignores such a request, the attachment still succeeds.
import { parsePreferredIps, type NetworkSelection } from "@patchbay/api/annotations";
import { isJsonObject } from "@patchbay/api/json";
import { normalizeMac } from "@patchbay/api/values";
import { hasCapability, withCniArgs } from "@patchbay/cni";
import { isAppError } from "@patchbay/base";
import type { AttachmentRequest, NetworkConfigList } from "@patchbay/core/interfaces";

export interface Preferences {
  readonly ips: readonly string[];
  /** CNI request with the previous MAC and, if supported, the previous addresses (`ips`). Unset if neither can be requested. */
  readonly request?: AttachmentRequest;
}

/** IPAM plugins without requested addresses. `static` does not check whether an address is in use; with `dhcp`, the server chooses it. */
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

/** Requests a MAC in both ways that plugins support. Source: CNI CONVENTIONS, "CNI_ARGS" and capability "mac". */
export function withRequestedMac(request: AttachmentRequest, mac: string): AttachmentRequest {
  const { args, capabilityArgs, config } = request;
  return {
    ...request,
    args: [...args.filter(([key]) => key !== "MAC"), ["MAC", mac]],
    ...(hasCapability(config, "mac") && { capabilityArgs: { ...capabilityArgs, mac } }),
  };
}

/** Removes the MAC from the selection if the MAC is only preferred, and not required. */
export function withoutPreferredMac(selection: NetworkSelection): NetworkSelection {
  if (selection["io.patchbay.kept-mac"] !== true) return selection;
  const others = Object.entries(selection).filter(([key]) => key !== "mac");
  return Object.fromEntries(others) as unknown as NetworkSelection;
}

function listPreferredIps(selection: NetworkSelection): readonly string[] {
  const requestedCount = selection.ips?.length ?? 0;
  const hasRequest = requestedCount > 0 || selection["cni-args"]?.["ips"] !== undefined;
  return hasRequest ? [] : parsePreferredIps(selection);
}

/**
 * Returns the previous addresses, and a copy of `request` with these addresses and the previous MAC. Returns undefined if
 * neither a previous address nor a previous MAC exists. Ignores previous addresses if the selection requests addresses.
 */
export function readPreferences(
  selection: NetworkSelection,
  request: AttachmentRequest,
): Preferences | undefined {
  const ips = listPreferredIps(selection);
  const mac = selection["io.patchbay.kept-mac"] === true ? (selection.mac ?? "") : "";
  if (ips.length === 0 && mac === "") return undefined;
  const withMac = mac === "" ? request : withRequestedMac(request, normalizeMac(mac));
  const withIps = ips.length === 0 ? undefined : withRequestedIps(withMac, ips);
  const preferredRequest = withIps ?? (mac === "" ? undefined : withMac);
  return { ips, ...(preferredRequest === undefined ? {} : { request: preferredRequest }) };
}

/** CNI error code for a transient failure. Source: CNI SPEC 1.1, "Error". */
const CNI_TRY_AGAIN_LATER = 11;

export function mayBeRejection(error: unknown): boolean {
  return isAppError(error, "CNI_PLUGIN_FAILED") && error.details["cniCode"] !== CNI_TRY_AGAIN_LATER;
}
