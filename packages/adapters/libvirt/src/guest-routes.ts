// SPDX-License-Identifier: Apache-2.0
// Has a guest a default route? Its agent tells its routes since QEMU 9.1; an older one reads the guest's own list of them, which is
// opened for reading and closed again. The guest is hostile: what cannot be read is not told.
import { isJsonObject } from "@patchbay/api/json";
import { isAppError } from "@patchbay/core";
import type { GuestFacts } from "@patchbay/core/ports";
import { saidByAgent } from "./protocol.ts";

/** Asks the agent one of the questions that the native half knows; resolves with its JSON. */
export type AskAgent = (question: string, file?: string) => Promise<unknown>;

/** Line of a default route, whichever its link: no destination and no mask, and it is up. Source: Linux, fib_route_seq_show */
const DEFAULT_LINE = /^\S+\s+0{8}\s+[0-9A-F]{8}\s+([0-9A-F]{4})\s+\d+\s+\d+\s+\d+\s+0{8}\s/;
/** Flags of a route that refuses, or is not up. Source: linux/route.h RTF_UP, RTF_REJECT */
const [UP, REJECT] = [0x1, 0x200];
const HEAD = /^Iface\s+Destination\s+Gateway\s+Flags\s/;

function factsOf(hasDefault: boolean): GuestFacts {
  return { "routes.default.ipv4": String(hasDefault) };
}

/** Its answer to `routes`; undefined: it is none. Source: QEMU qga/qapi-schema.json GuestNetworkRoute */
export function parseGuestRoutes(answer: unknown): GuestFacts | undefined {
  const said = saidByAgent(answer);
  if (!Array.isArray(said)) return undefined;
  const routes = said.filter(isJsonObject).filter((route) => route["version"] === 4);
  return factsOf(
    routes.some(({ destination, mask }) => destination === "0.0.0.0" && mask === "0.0.0.0"),
  );
}

function isDefault(line: string): boolean {
  const flags = Number.parseInt(DEFAULT_LINE.exec(line)?.[1] ?? "0", 16);
  return (flags & UP) !== 0 && (flags & REJECT) === 0;
}

/** What it has read of the guest's list; nothing where that is no list. */
export function parseRouteFile(answer: unknown): GuestFacts {
  const said = saidByAgent(answer);
  const content = isJsonObject(said) ? said["buf-b64"] : undefined;
  if (typeof content !== "string") return {};
  const [head = "", ...lines] = Buffer.from(content, "base64").toString("latin1").split("\n");
  return HEAD.test(head) ? factsOf(lines.some(isDefault)) : {};
}

/** The number of a file that it has opened, as its digits; undefined: it has not. */
export function parseFileNumber(answer: unknown): string | undefined {
  const said = saidByAgent(answer);
  return Number.isSafeInteger(said) && Number(said) >= 0 ? String(said) : undefined;
}

async function readFile(ask: AskAgent): Promise<GuestFacts> {
  const file = parseFileNumber(await ask("openRoutes"));
  if (file === undefined) return {};
  try {
    return parseRouteFile(await ask("readFile", file));
  } finally {
    await ask("closeFile", file);
  }
}

/**
 * Whether it has one, as `routes.default.ipv4`; nothing: it does not tell.
 * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE, LIBVIRT_UNSUPPORTED, LIBVIRT_REFUSED, and what any call throws
 */
export async function askGuestRoutes(ask: AskAgent): Promise<GuestFacts> {
  try {
    const told = parseGuestRoutes(await ask("routes"));
    if (told !== undefined) return told;
  } catch (error) {
    const isUnknown = (["LIBVIRT_UNSUPPORTED", "LIBVIRT_REFUSED"] as const).some((code) =>
      isAppError(error, code),
    );
    if (!isUnknown) throw error;
  }
  return readFile(ask);
}
