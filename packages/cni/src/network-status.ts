// SPDX-License-Identifier: Apache-2.0
// What a CNI result says in the annotation `network-status`. Source: NPWG 1.3 section 5.
import type { NetworkStatus } from "@patchbay/api";
import type { CniResult } from "@patchbay/ports";

const DEFAULT_DESTINATIONS = ["0.0.0.0/0", "::/0", ""];

type Nic = NonNullable<CniResult["interfaces"]>[number];

/** One NIC in the sandbox, and what of the result is said of it. */
interface Place {
  /** Its place among the interfaces of the result; undefined for a result that names none. */
  readonly index: number | undefined;
  readonly nic: Partial<Nic>;
  /** Whether it is the one that was asked for: what the result says of no NIC in particular is said of it. */
  readonly isAsked: boolean;
}

/** A result without interfaces (before 0.3.0) means the one that was asked for, and so does one that names it otherwise. */
function placesOf(result: CniResult, interfaceName: string): readonly Place[] {
  const inSandbox = (result.interfaces ?? []).flatMap((nic, index) =>
    nic.sandbox === undefined || nic.sandbox === "" ? [] : [{ index, nic }],
  );
  const asked = inSandbox.find(({ nic }) => nic.name === interfaceName) ?? inSandbox[0];
  if (asked === undefined) return [{ index: undefined, nic: {}, isAsked: true }];
  return inSandbox.map((place) => ({ ...place, isAsked: place === asked }));
}

function addressesOf(result: CniResult, { index, isAsked }: Omit<Place, "nic">): readonly string[] {
  const known = result.interfaces?.length ?? 0;
  return (result.ips ?? [])
    .filter(({ interface: owner }) =>
      owner === undefined || owner < 0 || owner >= known ? isAsked : owner === index,
    )
    .map(({ address }) => address.replace(/\/.*$/, ""));
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
 * The entries for one attachment, one for each NIC that it has in the sandbox: `name` is NAMESPACE/NAME of the network,
 * `interfaceName` what was asked as CNI_IFNAME. Addresses carry no prefix length and go to the entry of their NIC;
 * those of host interfaces are left out. Source: NPWG 1.3 section 5.3.
 */
export function networkStatusesOf(
  result: CniResult,
  name: string,
  interfaceName: string,
): readonly NetworkStatus[] {
  return placesOf(result, interfaceName).map(({ nic, ...place }) => {
    const ips = addressesOf(result, place);
    const gateway = place.isAsked ? gatewaysOf(result) : [];
    return {
      name,
      interface: place.isAsked ? interfaceName : (nic.name ?? ""),
      ...(ips.length === 0 ? {} : { ips }),
      ...hardwareOf(nic),
      dns: result.dns ?? {},
      ...(gateway.length === 0 ? {} : { gateway }),
    };
  });
}

function hardwareOf({ mac = "", mtu = 0 }: Partial<Nic>): Pick<NetworkStatus, "mac" | "mtu"> {
  return { ...(mac === "" ? {} : { mac }), ...(mtu === 0 ? {} : { mtu }) };
}

/** The entry for the NIC that was asked for. */
export function networkStatusOf(
  result: CniResult,
  name: string,
  interfaceName: string,
): NetworkStatus {
  const entries = networkStatusesOf(result, name, interfaceName);
  return entries.find((entry) => entry.interface === interfaceName) ?? { name };
}
