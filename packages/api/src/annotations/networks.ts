// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation `k8s.v1.cni.cncf.io/networks`, the network selection. Source: NPWG de-facto standard 1.3 section 4.1.

/** One network that is asked for; keys in the order in which KubeVirt prints them. */
export interface NetworkSelection {
  readonly name: string;
  readonly namespace?: string;
  readonly mac?: string;
  readonly interface?: string;
  readonly ips?: readonly string[];
  readonly "cni-args"?: Readonly<Record<string, unknown>>;
}

/** The annotation as read: its elements, or why it cannot be used. */
export type NetworksAnnotation =
  | { readonly ok: true; readonly elements: readonly NetworkSelection[] }
  | { readonly ok: false; readonly reason: string };

/** DNS-1123 label. Source: NPWG 1.3 section 3.3. */
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
/** IFNAMSIZ - 1. Source: linux/if.h */
export const LINK_NAME_MAX = 15;

function hasControlOrSpace(text: string): boolean {
  return /[\s/:]/.test(text);
}

function linkNameProblem(name: string): string | undefined {
  if (name.length === 0 || name.length > LINK_NAME_MAX) {
    return `interface "${name}" must have 1 to ${String(LINK_NAME_MAX)} characters`;
  }
  if (name === "." || name === ".." || hasControlOrSpace(name)) {
    return `interface "${name}" is no valid link name`;
  }
  return undefined;
}

function labelProblem(what: string, text: string): string | undefined {
  return LABEL.test(text) ? undefined : `${what} "${text}" is no valid DNS label`;
}

function parseShortItem(item: string): NetworkSelection | string {
  const [path = "", link, ...restLinks] = item.trim().split("@");
  const parts = path.split("/");
  if (restLinks.length > 0 || parts.length > 2)
    return `"${item.trim()}" is no [namespace/]name[@interface]`;
  const name = (parts.at(-1) ?? "").trim();
  const namespace = parts.length === 2 ? (parts[0] ?? "").trim() : undefined;
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(link === undefined ? {} : { interface: link.trim() }),
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const STRING_KEYS = ["name", "namespace", "mac", "interface"] as const;

function shapeProblem(value: Readonly<Record<string, unknown>>): string | undefined {
  const notText = STRING_KEYS.find(
    (key) => value[key] !== undefined && typeof value[key] !== "string",
  );
  if (notText !== undefined) return `${notText} is no string`;
  const ips = value["ips"];
  if (ips !== undefined && !(Array.isArray(ips) && ips.every((ip) => typeof ip === "string"))) {
    return "ips is no list of strings";
  }
  const args = value["cni-args"];
  return args === undefined || args === null || isRecord(args)
    ? undefined
    : "cni-args is no object";
}

function parseJsonItem(value: unknown, index: number): NetworkSelection | string {
  const at = `element ${String(index)}`;
  if (!isRecord(value)) return `${at} is no object`;
  const problem = shapeProblem(value);
  // The keys that are read further on were checked above; others are kept as they are.
  return problem === undefined ? (value as unknown as NetworkSelection) : `${at}: ${problem}`;
}

function elementProblem(element: NetworkSelection): string | undefined {
  return (
    labelProblem("network", element.name) ??
    (element.namespace === undefined || element.namespace === ""
      ? undefined
      : labelProblem("namespace", element.namespace)) ??
    (element.interface === undefined || element.interface === ""
      ? undefined
      : linkNameProblem(element.interface))
  );
}

function parseItems(text: string): readonly (NetworkSelection | string)[] | string {
  if (!/[[{"]/.test(text)) return text.split(",").map(parseShortItem);
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value.map(parseJsonItem) : "the value is no JSON list";
  } catch {
    return "the value is no valid JSON";
  }
}

/** Reads both forms, JSON and `[namespace/]name[@interface],...`. One bad element makes the whole annotation bad. */
export function parseNetworks(text: string | undefined): NetworksAnnotation {
  if (text === undefined || text.trim() === "") return { ok: true, elements: [] };
  const items = parseItems(text);
  if (typeof items === "string") return { ok: false, reason: items };
  const elements: NetworkSelection[] = [];
  for (const item of items) {
    const problem = typeof item === "string" ? item : elementProblem(item);
    if (problem !== undefined) return { ok: false, reason: problem };
    if (typeof item !== "string") elements.push(item);
  }
  return { ok: true, elements };
}

/** Writes the JSON form; order of elements and of keys is kept. */
export function printNetworks(elements: readonly NetworkSelection[]): string {
  return JSON.stringify(elements);
}
