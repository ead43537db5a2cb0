// SPDX-License-Identifier: Apache-2.0
// Links as wiring sees them, and what iproute2 prints.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core";
import type { Link } from "@patchbay/core/ports";

/** A text, or nothing. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A link with what wiring sets on it. */
export interface WiredLink extends Link {
  /** It neither asks nor answers for addresses. */
  readonly noArp: boolean;
  /** Of a bridge: neither spanning tree nor delay nor snooping of multicast. */
  readonly plain: boolean;
  /** Of a port of a bridge: the MACs behind it are learned. */
  readonly learning: boolean;
  /** Of a port of a bridge: frames to all, to many and to who is not known leave by it. */
  readonly flooding: boolean;
  /** Of a port of a bridge: frames for the next bridge pass. */
  readonly passesSwitchFrames: boolean;
}

/** Entries of a list that iproute2 printed. */
export function parseList(text: string): readonly JsonObject[] {
  try {
    const value: unknown = text.trim() === "" ? [] : JSON.parse(text);
    // iproute2 6.1 prints empty objects for links that a filter leaves out.
    if (Array.isArray(value)) return value.filter(isJsonObject);
  } catch {
    // Falls through to the error below: both mean that the program is not the one we know.
  }
  throw new AppError("PODNET_FAILED", { message: "the output is not a JSON list" });
}

/** One entry of a bridge's forwarding database. */
export interface ForwardingEntry {
  readonly mac: string;
  /** The port. */
  readonly device: string;
  /** `static`, `permanent`, or empty for a learned one. */
  readonly state: string;
}
