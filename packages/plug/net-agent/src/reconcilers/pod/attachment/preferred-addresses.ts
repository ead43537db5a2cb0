// SPDX-License-Identifier: Apache-2.0
// How is a network asked for the addresses that a NIC had before? A preference, which no attachment fails for: only IPAM that
// keeps account of what it has given is asked, and it decides.
import { isJsonObject, keptIpsOf, type NetworkSelection } from "@patchbay/api";
import { hasCapability, withCniArgs } from "@patchbay/cni";
import { isAppError } from "@patchbay/core";
import type { AttachmentRequest, NetworkConfigList } from "@patchbay/core/ports";

/** What a NIC had before. */
export interface PreferredAddresses {
  readonly ips: readonly string[];
  /** The request that asks for it; absent: this network cannot be asked. */
  readonly request?: AttachmentRequest;
}

/**
 * IPAM that gives whatever it is told, whoever has it, or asks a server that knows the NIC by its MAC. Source: CNI plugins,
 * plugins/ipam/static, plugins/ipam/dhcp.
 */
const NEVER_ASKED: readonly string[] = ["static", "dhcp"];
/** IPAM that takes `args.cni.ips` without a declared capability. Source: CNI plugins, plugins/ipam/host-local. */
const TAKES_ARGS = "host-local";

function ipamsOf({ plugins }: NetworkConfigList): readonly unknown[] {
  return plugins.flatMap(({ ipam }) => (isJsonObject(ipam) ? [ipam["type"]] : []));
}

function asksFor(
  request: AttachmentRequest,
  ips: readonly string[],
): AttachmentRequest | undefined {
  const { config, capabilityArgs } = request;
  const ipams = ipamsOf(config);
  if (ipams.some((ipam) => NEVER_ASKED.some((each) => each === ipam))) return undefined;
  if (hasCapability(config, "ips")) {
    return { ...request, capabilityArgs: { ...capabilityArgs, ips } };
  }
  return ipams.includes(TAKES_ARGS)
    ? { ...request, config: withCniArgs(config, { ips }) }
    : undefined;
}

/** What the selection prefers beside what it asks for; addresses that it asks for go first. */
export function preferredAddressesOf(
  selection: NetworkSelection,
  request: AttachmentRequest,
): PreferredAddresses | undefined {
  const asked = selection.ips?.length ?? 0;
  const ips = keptIpsOf(selection);
  const hasOwn = asked > 0 || selection["cni-args"]?.["ips"] !== undefined;
  if (hasOwn || ips.length === 0) return undefined;
  const asking = asksFor(request, ips);
  return { ips, ...(asking === undefined ? {} : { request: asking }) };
}

/** Error code of a plugin that is to be asked the same again. Source: CNI SPEC 1.1, "Error". */
const TRY_AGAIN_LATER = 11;

/** Whether a failure may be one of the preference: a plugin has said no, and will not say otherwise in a moment. */
export function mayBeRefusal(error: unknown): boolean {
  return isAppError(error, "CNI_PLUGIN_FAILED") && error.details["cniCode"] !== TRY_AGAIN_LATER;
}
