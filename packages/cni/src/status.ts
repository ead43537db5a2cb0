// SPDX-License-Identifier: Apache-2.0
// What a CNI result says in the annotation `network-status`. Source: NPWG 1.3 section 5.
import type { NetworkStatus } from "@patchbay/api";
import type { CniResult } from "@patchbay/ports";

const DEFAULT_DESTINATIONS = ["0.0.0.0/0", "::/0", ""];

function isInSandbox(nic: NonNullable<CniResult["interfaces"]>[number]): boolean {
  return nic.sandbox !== undefined && nic.sandbox !== "";
}

function addressesOf(result: CniResult): readonly NonNullable<CniResult["ips"]>[number][] {
  const nics = result.interfaces ?? [];
  return (result.ips ?? []).filter((ip) => {
    const nic = ip.interface === undefined ? undefined : nics[ip.interface];
    return nic === undefined || isInSandbox(nic);
  });
}

/** Gateways of default routes; a default route without one means the gateway of the addresses. */
function gatewaysOf(result: CniResult): readonly string[] {
  const routes = (result.routes ?? []).filter((route) =>
    // Plugins may leave `dst` out; the type does not know it.
    DEFAULT_DESTINATIONS.includes((route as { readonly dst?: string }).dst ?? ""),
  );
  const gateways = routes.flatMap((route) =>
    route.gw === undefined
      ? (result.ips ?? []).flatMap((ip) => (ip.gateway === undefined ? [] : [ip.gateway]))
      : [route.gw],
  );
  return [...new Set(gateways)];
}

/**
 * The entry for one attachment: `name` is NAMESPACE/NAME of the network, `interfaceName` what was asked as CNI_IFNAME.
 * Addresses carry no prefix length; addresses of host interfaces are left out. A result without interfaces
 * (before 0.3.0) gives the interface that was asked for. Source: NPWG 1.3 section 5.3.
 */
export function networkStatusOf(
  result: CniResult,
  name: string,
  interfaceName: string,
): NetworkStatus {
  const ips = addressesOf(result).map((ip) => ip.address.replace(/\/.*$/, ""));
  const gateway = gatewaysOf(result);
  return {
    name,
    interface: interfaceName,
    ...(ips.length === 0 ? {} : { ips }),
    ...hardwareOf(result, interfaceName),
    dns: result.dns ?? {},
    ...(gateway.length === 0 ? {} : { gateway }),
  };
}

function hardwareOf(result: CniResult, interfaceName: string): Pick<NetworkStatus, "mac" | "mtu"> {
  const inSandbox = (result.interfaces ?? []).filter(isInSandbox);
  const nic = inSandbox.find((candidate) => candidate.name === interfaceName) ?? inSandbox[0];
  const { mac = "", mtu = 0 } = nic ?? {};
  return { ...(mac === "" ? {} : { mac }), ...(mtu === 0 ? {} : { mtu }) };
}
