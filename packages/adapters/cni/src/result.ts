// SPDX-License-Identifier: Apache-2.0
// Parses and prints CNI results of all versions. Source: CNI SPEC 1.1 section 5
import { isJsonObject, type JsonObject, parseJson } from "@patchbay/api";
import type { CniResult } from "@patchbay/core/interfaces";
import { isAtLeast } from "./version.ts";

function isListOf(value: unknown, isItem: (item: JsonObject) => boolean): boolean {
  return (
    value === undefined ||
    (Array.isArray(value) && value.every((item) => isJsonObject(item) && isItem(item)))
  );
}

function isOptional(value: unknown, type: "string" | "number"): boolean {
  return value === undefined || typeof value === type;
}

function isModernResult(value: JsonObject): boolean {
  return (
    isListOf(
      value["interfaces"],
      (item) =>
        typeof item["name"] === "string" &&
        isOptional(item["mac"], "string") &&
        isOptional(item["mtu"], "number") &&
        isOptional(item["sandbox"], "string"),
    ) &&
    isListOf(
      value["ips"],
      (item) =>
        typeof item["address"] === "string" &&
        isOptional(item["interface"], "number") &&
        isOptional(item["gateway"], "string"),
    ) &&
    isListOf(
      value["routes"],
      (item) => isOptional(item["dst"], "string") && isOptional(item["gw"], "string"),
    )
  );
}

/** Versions 0.1 and 0.2 have one address per family and no interfaces. */
function fromLegacy(value: JsonObject): JsonObject {
  const families = [value["ip4"], value["ip6"]].filter(isJsonObject);
  if (families.length === 0) return value;
  return {
    ips: families.map((family) => ({
      address: family["ip"],
      ...(family["gateway"] === undefined ? {} : { gateway: family["gateway"] }),
    })),
    routes: families.flatMap((family): unknown[] =>
      Array.isArray(family["routes"]) ? family["routes"] : [],
    ),
    dns: value["dns"],
  };
}

function withoutNulls(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}

/** `version`: for a result without one. Retains unknown fields for the next plugin. Undefined if it is not a result. */
export function parseResult(text: string, version: string): CniResult | undefined {
  const value = parseJson(text);
  if (value === null) return { cniVersion: version };
  if (!isJsonObject(value)) return undefined;
  const { cniVersion: stated } = value;
  const cniVersion = typeof stated === "string" && stated !== "" ? stated : version;
  const result = withoutNulls({ ...fromLegacy(value), cniVersion });
  // The fields of CniResult were checked.
  return isModernResult(result) ? (result as unknown as CniResult) : undefined;
}

type Address = NonNullable<CniResult["ips"]>[number];

function isV6({ address }: Pick<Address, "address">): boolean {
  return address.includes(":");
}

/** One address per family, and no interface. */
function toLegacyFamily(result: CniResult, wantsV6: boolean): object | undefined {
  const found = result.ips?.find((ip) => isV6(ip) === wantsV6);
  if (found === undefined) return undefined;
  const routes = result.routes?.filter(({ dst }) => dst.includes(":") === wantsV6);
  return {
    ip: found.address,
    ...(found.gateway === undefined ? {} : { gateway: found.gateway }),
    ...(routes === undefined || routes.length === 0 ? {} : { routes }),
  };
}

/** Prints the result in the format of that version; both versions must be known. Source: CNI SPEC 0.2, 0.4, 1.1 "Result" */
export function printResult(result: CniResult, cniVersion: string): object {
  if (isAtLeast(cniVersion, "1.0.0")) return { ...result, cniVersion };
  if (isAtLeast(cniVersion, "0.3.0")) {
    const ips = result.ips?.map((ip) => ({ version: isV6(ip) ? "6" : "4", ...ip }));
    return { ...result, ...(ips === undefined ? {} : { ips }), cniVersion };
  }
  const [ip4, ip6] = [toLegacyFamily(result, false), toLegacyFamily(result, true)];
  return {
    cniVersion,
    ...(ip4 === undefined ? {} : { ip4 }),
    ...(ip6 === undefined ? {} : { ip6 }),
    dns: result.dns ?? {},
  };
}
