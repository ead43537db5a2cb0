// SPDX-License-Identifier: Apache-2.0
// What is asked where somebody looks at the packets of an interface: by whom, which of them, and how many at most. Pure.
import type { ObjectKey } from "../ports/store.ts";
import { guestPath, parseGuestPath } from "./requests.ts";

/** What a request may ask for. */
export interface CaptureOrder {
  readonly interface: string;
  /** Of libpcap (pcap-filter(7)); empty: all packets. */
  readonly filter: string;
  readonly seconds: number;
  /** Of the capture with its headers. */
  readonly bytes: number;
}

/** What virt-handler is asked for. */
export interface CaptureRequest {
  readonly stream: "capture";
  readonly order: CaptureOrder;
  /** Name of the user that asks. */
  readonly by: string;
}

/** The last part of the path. */
export const CAPTURE = "capture";

/** Of what is a number: what is taken where nothing is said, and the range of it. */
export const CAPTURE_LIMITS = {
  seconds: { fallback: 60, least: 1, most: 3600 },
  bytes: { fallback: 16 * 1024 * 1024, least: 1024, most: 1024 * 1024 * 1024 },
} as const;

/** Longest filter, characters. */
const FILTER_MAX = 1000;
const FIELDS = ["interface", "filter", "seconds", "bytes"] as const;

type Values = ReadonlyMap<string, string>;

/** What stands in the query; undefined: a value is not encoded as it must be. */
function valuesOf(query: string): Values | undefined {
  const parts = query.split("&").filter((part) => part !== "");
  try {
    return new Map(
      parts.map((part) => {
        const [name = "", ...value] = part.split("=");
        return [name, decodeURIComponent(value.join("=").replaceAll("+", " "))];
      }),
    );
  } catch {
    return undefined;
  }
}

function numberProblem(values: Values, name: keyof typeof CAPTURE_LIMITS): string | undefined {
  const { least, most } = CAPTURE_LIMITS[name];
  const text = values.get(name);
  if (text === undefined) return undefined;
  const isRight = /^\d{1,10}$/.test(text) && Number(text) >= least && Number(text) <= most;
  return isRight
    ? undefined
    : `${name}: must be a whole number from ${String(least)} to ${String(most)}`;
}

function filterProblem(filter: string): string | undefined {
  if (filter.length > FILTER_MAX) {
    return `filter: must have at most ${String(FILTER_MAX)} characters`;
  }
  return /^[\x20-\x7e]*$/.test(filter) ? undefined : "filter: must be printable ASCII on one line";
}

function problemsOf(values: Values): readonly string[] {
  const known: readonly string[] = FIELDS;
  const unknown = [...values.keys()].filter((name) => !known.includes(name));
  const isNamed = (values.get("interface") ?? "") !== "";
  return [
    isNamed ? undefined : "interface: must name an interface of the VM",
    filterProblem(values.get("filter") ?? ""),
    numberProblem(values, "seconds"),
    numberProblem(values, "bytes"),
    ...unknown.map((name) => `${name}: is not known; known are ${known.join(", ")}`),
  ].filter((problem) => problem !== undefined);
}

/** What a query asks for, or all that is wrong with it, each with the field. */
export function parseCaptureQuery(
  query: string,
): { readonly order: CaptureOrder } | { readonly problems: readonly string[] } {
  const values = valuesOf(query);
  if (values === undefined) return { problems: ["query: is not encoded as a URL's query"] };
  const problems = problemsOf(values);
  if (problems.length > 0) return { problems };
  const numberOf = (name: keyof typeof CAPTURE_LIMITS): number =>
    Number(values.get(name) ?? CAPTURE_LIMITS[name].fallback);
  return {
    order: {
      interface: values.get("interface") ?? "",
      filter: values.get("filter") ?? "",
      seconds: numberOf("seconds"),
      bytes: numberOf("bytes"),
    },
  };
}

/** The query of an order. */
export function printCaptureQuery(order: CaptureOrder): string {
  return FIELDS.map((name) => `${name}=${encodeURIComponent(String(order[name]))}`).join("&");
}

/** The path at virt-handler. */
export function capturePath(key: ObjectKey, { order, by }: CaptureRequest): string {
  const path = guestPath(key, CAPTURE);
  return `${path}/${encodeURIComponent(by)}?${printCaptureQuery(order)}`;
}

/** What a path asks; undefined where it is no capture. */
export function parseCapturePath(
  url: string,
): (CaptureRequest & { readonly key: Required<ObjectKey> }) | undefined {
  const [path = "", query = ""] = url.split("?");
  const at = path.lastIndexOf("/");
  const { key, what } = parseGuestPath(path.slice(0, at)) ?? {};
  if (key === undefined || what !== CAPTURE) return undefined;
  const parsed = parseCaptureQuery(query);
  if (!("order" in parsed)) return undefined;
  const by = decodeURIComponent(path.slice(at + 1));
  return { key, stream: CAPTURE, order: parsed.order, by };
}
