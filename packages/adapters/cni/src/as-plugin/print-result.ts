// SPDX-License-Identifier: Apache-2.0
// A result in the words of the version that a runtime asked in. Pure. Source: CNI SPEC 0.2, 0.4, 1.1 "Result".
import type { CniResult } from "@patchbay/core/ports";
import { isAtLeast } from "../version.ts";

type Address = NonNullable<CniResult["ips"]>[number];

function isV6({ address }: Pick<Address, "address">): boolean {
  return address.includes(":");
}

/** One address for each family, and no NIC. */
function familyOf(result: CniResult, wantsV6: boolean): object | undefined {
  const found = result.ips?.find((ip) => isV6(ip) === wantsV6);
  if (found === undefined) return undefined;
  const routes = result.routes?.filter(({ dst }) => dst.includes(":") === wantsV6);
  return {
    ip: found.address,
    ...(found.gateway === undefined ? {} : { gateway: found.gateway }),
    ...(routes === undefined || routes.length === 0 ? {} : { routes }),
  };
}

/** The same result as that version has it; both must be known. */
export function printResult(result: CniResult, cniVersion: string): object {
  if (isAtLeast(cniVersion, "1.0.0")) return { ...result, cniVersion };
  if (isAtLeast(cniVersion, "0.3.0")) {
    const ips = result.ips?.map((ip) => ({ version: isV6(ip) ? "6" : "4", ...ip }));
    return { ...result, ...(ips === undefined ? {} : { ips }), cniVersion };
  }
  const [ip4, ip6] = [familyOf(result, false), familyOf(result, true)];
  return {
    cniVersion,
    ...(ip4 === undefined ? {} : { ip4 }),
    ...(ip6 === undefined ? {} : { ip6 }),
    dns: result.dns ?? {},
  };
}
