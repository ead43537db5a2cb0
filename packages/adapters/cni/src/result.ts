// SPDX-License-Identifier: Apache-2.0
// Reads the result of ADD in every version. Source: CNI SPEC 1.1 section 5.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import type { CniResult } from "@patchbay/core/ports";

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

/** 0.1 and 0.2 know one address for each family and no interface. */
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

/**
 * Reads what a plugin printed; `version` is the one of its configuration, for a result that states none.
 * Fields that are not known here are kept, since the next plugin may need them. Undefined: no result at all.
 */
export function parseResult(text: string, version: string): CniResult | undefined {
  const value = parseJson(text);
  if (value === null) return { cniVersion: version };
  if (!isJsonObject(value)) return undefined;
  const { cniVersion: stated } = value;
  const cniVersion = typeof stated === "string" && stated !== "" ? stated : version;
  const result = withoutNulls({ ...fromLegacy(value), cniVersion });
  // Every field of CniResult was checked one by one.
  return isModernResult(result) ? (result as unknown as CniResult) : undefined;
}
