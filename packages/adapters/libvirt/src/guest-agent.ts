// SPDX-License-Identifier: Apache-2.0
// Parses reports of libvirt and of the guest agent. Drops invalid values, because the guest is untrusted.
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { isAppError } from "@patchbay/base";
import type { GuestFacts, GuestInterface, GuestSystem } from "@patchbay/core/interfaces";
import { parseText } from "./protocol.ts";

export function parseGuestInterfaces(value: unknown): readonly GuestInterface[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isJsonObject).map((entry) => ({
    name: parseText(entry["name"]),
    mac: parseText(entry["mac"]),
    addresses: toList(entry["addresses"]).map(parseText),
  }));
}

/** Parameter names in libvirt. Source: libvirt virDomainGetGuestInfo, VIR_DOMAIN_GUEST_INFO_OS */
const SYSTEM_FACTS: Readonly<Record<keyof GuestSystem, string>> = {
  id: "os.id",
  name: "os.name",
  prettyName: "os.pretty-name",
  version: "os.version",
  versionId: "os.version-id",
  kernelRelease: "os.kernel-release",
  kernelVersion: "os.kernel-version",
  machine: "os.machine",
};

export function parseGuestSystem(value: unknown): GuestSystem {
  if (!isJsonObject(value)) return {};
  const facts = Object.entries(SYSTEM_FACTS).map(([fact, name]) => [fact, parseText(value[name])]);
  return Object.fromEntries(facts.filter(([, text]) => text !== "")) as GuestSystem;
}

export function parseGuestFacts(value: unknown): GuestFacts {
  if (!isJsonObject(value)) return {};
  const facts = Object.entries(value).map(([name, text]) => [name, parseText(text)] as const);
  return Object.fromEntries(facts.filter(([, text]) => text !== ""));
}

/** Maximum number of agent commands to report, because a hostile agent can list any number. */
const COMMANDS_MAX = 256;

function parseAgentReturn(value: unknown): unknown {
  const answer = parseJson(typeof value === "string" ? value : undefined);
  return isJsonObject(answer) ? answer["return"] : undefined;
}

export function parseGuestFreeze(value: unknown): GuestFacts {
  return parseGuestFacts({ "freeze.status": parseAgentReturn(value) });
}

export function parseGuestAgent(value: unknown): GuestFacts {
  const reply = parseAgentReturn(value);
  if (!isJsonObject(reply)) return {};
  const commands = toList(reply["supported_commands"]).filter(isJsonObject).slice(0, COMMANDS_MAX);
  return parseGuestFacts({
    "agent.version": reply["version"],
    "agent.command.count": String(commands.length),
    ...Object.fromEntries(
      commands.flatMap(({ name, enabled }, index) => [
        [`agent.command.${String(index)}.name`, name],
        [`agent.command.${String(index)}.enabled`, String(enabled === true)],
      ]),
    ),
  });
}

function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

/**
 * Sends a command to the guest agent, and returns the agent's JSON reply. native/domain.cc maps `question` to the command. `file` is the
 * handle of a file in the guest.
 */
type AgentCall = (question: string, file?: string) => Promise<unknown>;

/** Pattern of a route whose destination and mask are zero, in /proc/net/route. Source: Linux, fib_route_seq_show */
const DEFAULT_ROUTE_LINE = /^\S+\s+0{8}\s+[0-9A-F]{8}\s+([0-9A-F]{4})\s+\d+\s+\d+\s+\d+\s+0{8}\s/;
/** Source: linux/route.h RTF_UP, RTF_REJECT */
const [ROUTE_UP, ROUTE_REJECT] = [0x1, 0x200];
const ROUTE_FILE_HEADER = /^Iface\s+Destination\s+Gateway\s+Flags\s/;

function toFacts(hasDefault: boolean): GuestFacts {
  return { "routes.default.ipv4": String(hasDefault) };
}

/** Parses the agent's routes. Returns undefined if the answer is invalid. Source: QEMU qga/qapi-schema.json GuestNetworkRoute */
export function parseGuestRoutes(answer: unknown): GuestFacts | undefined {
  const reply = parseAgentReturn(answer);
  if (!Array.isArray(reply)) return undefined;
  const routes = reply.filter(isJsonObject).filter((route) => route["version"] === 4);
  return toFacts(
    routes.some(({ destination, mask }) => destination === "0.0.0.0" && mask === "0.0.0.0"),
  );
}

function isDefault(line: string): boolean {
  const flags = Number.parseInt(DEFAULT_ROUTE_LINE.exec(line)?.[1] ?? "0", 16);
  return (flags & ROUTE_UP) !== 0 && (flags & ROUTE_REJECT) === 0;
}

/** Parses the content of /proc/net/route. Returns no facts if the content is invalid. */
export function parseRouteFile(answer: unknown): GuestFacts {
  const reply = parseAgentReturn(answer);
  const content = isJsonObject(reply) ? reply["buf-b64"] : undefined;
  if (typeof content !== "string") return {};
  const [header = "", ...lines] = Buffer.from(content, "base64").toString("latin1").split("\n");
  return ROUTE_FILE_HEADER.test(header) ? toFacts(lines.some(isDefault)) : {};
}

/** Parses the handle of an opened file. Returns undefined if the agent did not open the file. */
export function parseFileNumber(answer: unknown): string | undefined {
  const reply = parseAgentReturn(answer);
  return Number.isSafeInteger(reply) && Number(reply) >= 0 ? String(reply) : undefined;
}

async function readFile(call: AgentCall): Promise<GuestFacts> {
  const file = parseFileNumber(await call("openRoutes"));
  if (file === undefined) return {};
  try {
    return parseRouteFile(await call("readFile", file));
  } finally {
    await call("closeFile", file);
  }
}

/**
 * Returns the fact `routes.default.ipv4`: whether the guest has a default route. Reads the guest's /proc/net/route if the agent cannot list
 * routes (before QEMU 9.1) or lists them in an invalid form. Returns no facts if that file cannot be opened or is invalid.
 * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE or another error of `call`
 */
export async function readGuestRoutes(call: AgentCall): Promise<GuestFacts> {
  try {
    const facts = parseGuestRoutes(await call("routes"));
    if (facts !== undefined) return facts;
  } catch (error) {
    const isUnsupported = (["LIBVIRT_UNSUPPORTED", "LIBVIRT_REFUSED"] as const).some((code) =>
      isAppError(error, code),
    );
    if (!isUnsupported) throw error;
  }
  return readFile(call);
}
