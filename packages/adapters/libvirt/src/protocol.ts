// SPDX-License-Identifier: Apache-2.0
// What parent and child say to one another. The parent does not trust the child: it parses what comes.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type {
  DomainInfo,
  DomainLifecycle,
  DomainState,
  GuestFacts,
  GuestInterface,
  GuestSystem,
  HypervisorEvent,
} from "@patchbay/core/ports";
import type { NativeError } from "./native.ts";

/** Number of the call that opens a connection. */
export const OPEN_CALL = 0;

/** What the parent says to the child. Numbers of connections are never used again. */
export type Request =
  | { readonly kind: "open"; readonly connection: number; readonly uri: string }
  /** The descriptor with the connection's number as its token is the socket to connect to. */
  | { readonly kind: "openSocket"; readonly connection: number }
  | {
      readonly kind: "call";
      readonly connection: number;
      readonly call: number;
      readonly operation: string;
      readonly arguments: readonly string[];
    }
  /** Ends the call that is in flight too. */
  | { readonly kind: "close"; readonly connection: number }
  /** To be answered at once. */
  | { readonly kind: "beat" };

/** What the child says of one connection. */
export type Reply =
  | {
      readonly kind: "result";
      readonly connection: number;
      readonly call: number;
      readonly value?: unknown;
    }
  | {
      readonly kind: "failed";
      readonly connection: number;
      readonly call: number;
      readonly error: NativeError;
    }
  | { readonly kind: "event"; readonly connection: number; readonly event: HypervisorEvent }
  | { readonly kind: "lost"; readonly connection: number; readonly reason: string }
  /** Nothing is left of the connection in the child. */
  | { readonly kind: "ended"; readonly connection: number };

/** The answer to a beat. */
export interface Beat {
  readonly kind: "beat";
  /** How long ago libvirt's event loop was last seen to turn. */
  readonly eventLoopAgeMs: number;
}

/** Longest text of libvirt that is kept, characters. */
const TEXT_MAX = 1000;

const LIFECYCLES: ReadonlySet<unknown> = new Set<DomainLifecycle>([
  "defined",
  "undefined",
  "started",
  "suspended",
  "resumed",
  "stopped",
  "shutdown",
  "pmsuspended",
  "crashed",
]);

const STATES: ReadonlySet<unknown> = new Set<DomainState>([
  "running",
  "blocked",
  "paused",
  "shutdown",
  "shutoff",
  "crashed",
  "suspended",
  "unknown",
]);

const DEVICE_EVENTS: ReadonlySet<unknown> = new Set([
  "deviceAdded",
  "deviceRemoved",
  "deviceRemovalFailed",
]);

/** The child's answer to a beat, or undefined when it is none. */
export function parseBeat(message: unknown): Beat | undefined {
  if (!isJsonObject(message) || message["kind"] !== "beat") return undefined;
  const { eventLoopAgeMs } = message;
  return typeof eventLoopAgeMs === "number" ? { kind: "beat", eventLoopAgeMs } : undefined;
}

/** What the child said of a connection, or undefined when it is none of the above. */
export function parseReply(message: unknown): Reply | undefined {
  if (!isJsonObject(message) || typeof message["connection"] !== "number") return undefined;
  const { connection } = message;
  switch (message["kind"]) {
    case "ended":
      return { kind: "ended", connection };
    case "lost":
      return { kind: "lost", connection, reason: parseText(message["reason"]) };
    case "event":
      return parseEvent(message["event"], connection);
    case "result":
    case "failed":
      return parseAnswer(message, connection);
    default:
      return undefined;
  }
}

function parseAnswer(message: JsonObject, connection: number): Reply | undefined {
  const { call, error, value } = message;
  if (typeof call !== "number") return undefined;
  if (message["kind"] === "result") return { kind: "result", connection, call, value };
  if (!isJsonObject(error)) return undefined;
  const failure = {
    number: parseNumber(error["number"]),
    domain: parseNumber(error["domain"]),
    level: parseNumber(error["level"]),
    message: parseText(error["message"]),
  };
  return { kind: "failed", connection, call, error: failure };
}

function parseEvent(event: unknown, connection: number): Reply | undefined {
  if (!isJsonObject(event) || typeof event["domain"] !== "string") return undefined;
  const told = eventOf(event, event["domain"]);
  return told && { kind: "event", connection, event: told };
}

function eventOf(event: JsonObject, domain: string): HypervisorEvent | undefined {
  const { kind, alias } = event;
  if (DEVICE_EVENTS.has(kind) && typeof alias === "string") {
    // The set holds exactly these three kinds.
    const deviceKind = kind as "deviceAdded" | "deviceRemoved" | "deviceRemovalFailed";
    return { kind: deviceKind, domain, alias };
  }
  switch (kind) {
    case "agentConnected":
    case "agentDisconnected":
      return { kind, domain };
    case "migrationIteration":
    case "jobCompleted":
      return jobEventOf(kind, domain, event["detail"]);
    case "lifecycle":
      return lifecycleOf(event, domain);
    default:
      return undefined;
  }
}

function lifecycleOf(event: JsonObject, domain: string): HypervisorEvent | undefined {
  if (!LIFECYCLES.has(event["event"])) return undefined;
  const lifecycle = event["event"] as DomainLifecycle; // one of the set
  const detail = parseNumber(event["detail"]);
  return { kind: "lifecycle", domain, event: lifecycle, detail };
}

function jobEventOf(
  kind: "migrationIteration" | "jobCompleted",
  domain: string,
  detail: unknown,
): HypervisorEvent {
  const number = parseNumber(detail);
  if (kind === "migrationIteration") return { kind, domain, iteration: number };
  return { kind, domain, ...(number >= 0 && { downtimeMs: number }) };
}

/** The domain of a `findDomain` answer; undefined when there is none, or the answer is none. */
export function parseDomain(value: unknown): DomainInfo | undefined {
  if (!isJsonObject(value)) return undefined;
  const { name, uuid, state, persistent, move } = value;
  if (typeof name !== "string" || typeof uuid !== "string" || !STATES.has(state)) return undefined;
  return {
    name,
    uuid,
    persistent: persistent === true,
    state: state as DomainState, // one of the set
    ...(value["hasDiskError"] === true && { hasDiskError: true }),
    ...((move === "left" || move === "leaving") && { move }),
  };
}

/** The answer to `readGuestInterfaces`; entries that are none are left out. */
export function parseGuestInterfaces(value: unknown): readonly GuestInterface[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isJsonObject).map((entry) => ({
    name: parseText(entry["name"]),
    mac: parseText(entry["mac"]),
    addresses: listOf(entry["addresses"]).map(parseText),
  }));
}

/** What libvirt calls them. Source: libvirt virDomainGetGuestInfo, VIR_DOMAIN_GUEST_INFO_OS. */
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

/** The answer to `readGuestSystem`; what is no text is left out. */
export function parseGuestSystem(value: unknown): GuestSystem {
  if (!isJsonObject(value)) return {};
  const facts = Object.entries(SYSTEM_FACTS).map(([fact, name]) => [fact, parseText(value[name])]);
  return Object.fromEntries(facts.filter(([, text]) => text !== "")) as GuestSystem; // of its keys
}

/** The answer to `readGuestFacts`; what is no text is left out. */
export function parseGuestFacts(value: unknown): GuestFacts {
  if (!isJsonObject(value)) return {};
  const facts = Object.entries(value).map(([name, text]) => [name, parseText(text)] as const);
  return Object.fromEntries(facts.filter(([, text]) => text !== ""));
}

/** Most commands of an agent that are passed on: it may claim to know any number. */
const COMMANDS_MAX = 256;

/** What an agent has answered, which is its JSON. */
export function saidByAgent(value: unknown): unknown {
  const answer = parseJson(typeof value === "string" ? value : undefined);
  return isJsonObject(answer) ? answer["return"] : undefined;
}

/** Its answer to `freeze` as a fact. */
export function parseGuestFreeze(value: unknown): GuestFacts {
  return parseGuestFacts({ "freeze.status": saidByAgent(value) });
}

/** Its answer to `agent` as facts; what is no text is left out. */
export function parseGuestAgent(value: unknown): GuestFacts {
  const said = saidByAgent(value);
  if (!isJsonObject(said)) return {};
  const commands = listOf(said["supported_commands"]).filter(isJsonObject).slice(0, COMMANDS_MAX);
  return parseGuestFacts({
    "agent.version": said["version"],
    "agent.command.count": String(commands.length),
    ...Object.fromEntries(
      commands.flatMap(({ name, enabled }, index) => [
        [`agent.command.${String(index)}.name`, name],
        [`agent.command.${String(index)}.enabled`, String(enabled === true)],
      ]),
    ),
  });
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : []; // of what, is looked at one by one
}

function parseNumber(value: unknown): number {
  return typeof value === "number" ? value : -1;
}

function parseText(value: unknown): string {
  return typeof value === "string" ? value.slice(0, TEXT_MAX) : "";
}
