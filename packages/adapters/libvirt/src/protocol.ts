// SPDX-License-Identifier: Apache-2.0
// Messages between this service (the parent) and its child process that calls libvirt, and heartbeats that detect a stuck child. The parent
// validates each message, because the child is untrusted.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import type { Clock } from "@patchbay/base";
import type {
  DomainInfo,
  DomainLifecycle,
  DomainState,
  HypervisorEvent,
} from "@patchbay/core/interfaces";

/** Source: libvirt virError */
export interface NativeError {
  readonly number: number;
  readonly domain: number;
  readonly level: number;
  readonly message: string;
}

export const OPEN_CALL = 0;

/** Requests of the parent. Connection numbers are never reused. */
export type Request =
  | { readonly kind: "open"; readonly connection: number; readonly uri: string }
  /** The parent sends the socket's descriptor separately, with the connection's number as its token. */
  | { readonly kind: "openSocket"; readonly connection: number }
  | {
      readonly kind: "call";
      readonly connection: number;
      readonly call: number;
      readonly operation: string;
      readonly arguments: readonly string[];
    }
  | { readonly kind: "close"; readonly connection: number }
  | { readonly kind: "beat" };

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
  | { readonly kind: "ended"; readonly connection: number };

export interface Beat {
  readonly kind: "beat";
  readonly eventLoopAgeMs: number;
}

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

export function parseBeat(message: unknown): Beat | undefined {
  if (!isJsonObject(message) || message["kind"] !== "beat") return undefined;
  const { eventLoopAgeMs } = message;
  return typeof eventLoopAgeMs === "number" ? { kind: "beat", eventLoopAgeMs } : undefined;
}

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
  const parsed = toEvent(event, event["domain"]);
  return parsed && { kind: "event", connection, event: parsed };
}

function toEvent(event: JsonObject, domain: string): HypervisorEvent | undefined {
  const { kind, alias } = event;
  if (DEVICE_EVENTS.has(kind) && typeof alias === "string") {
    const deviceKind = kind as "deviceAdded" | "deviceRemoved" | "deviceRemovalFailed";
    return { kind: deviceKind, domain, alias };
  }
  switch (kind) {
    case "agentConnected":
    case "agentDisconnected":
      return { kind, domain };
    case "migrationIteration":
    case "jobCompleted":
      return toJobEvent(kind, domain, event["detail"]);
    case "lifecycle":
      return toLifecycleEvent(event, domain);
    default:
      return undefined;
  }
}

function toLifecycleEvent(event: JsonObject, domain: string): HypervisorEvent | undefined {
  if (!LIFECYCLES.has(event["event"])) return undefined;
  const lifecycle = event["event"] as DomainLifecycle;
  const detail = parseNumber(event["detail"]);
  return { kind: "lifecycle", domain, event: lifecycle, detail };
}

function toJobEvent(
  kind: "migrationIteration" | "jobCompleted",
  domain: string,
  detail: unknown,
): HypervisorEvent {
  const detailNumber = parseNumber(detail);
  if (kind === "migrationIteration") return { kind, domain, iteration: detailNumber };
  return { kind, domain, ...(detailNumber >= 0 && { downtimeMs: detailNumber }) };
}

/** Parses the answer to `findDomain`. Returns undefined if the domain is missing or the answer is invalid. */
export function parseDomain(value: unknown): DomainInfo | undefined {
  if (!isJsonObject(value)) return undefined;
  const { name, uuid, state, persistent, move } = value;
  if (typeof name !== "string" || typeof uuid !== "string" || !STATES.has(state)) return undefined;
  return {
    name,
    uuid,
    persistent: persistent === true,
    state: state as DomainState,
    ...(value["hasDiskError"] === true && { hasDiskError: true }),
    ...((move === "left" || move === "leaving") && { move }),
  };
}

function parseNumber(value: unknown): number {
  return typeof value === "number" ? value : -1;
}

export function parseText(value: unknown): string {
  return typeof value === "string" ? value.slice(0, TEXT_MAX) : "";
}

/** Number of heartbeats without reply after which the child counts as stuck. More than one, because a busy parent reads replies late. */
const MISSED_HEARTBEATS_MAX = 2;

interface HeartbeatOptions {
  readonly clock: Clock;
  /** Interval of heartbeats, in milliseconds. A child is stuck if its libvirt event loop has not ticked for longer than one interval. */
  readonly beatMs: number;
  readonly signal: AbortSignal;
  send(): void;
  /** Called once, with the reason, when the child is stuck. */
  onSilent(reason: string): void;
}

export interface Heartbeat {
  accept(beat: Beat): void;
}

/** Starts heartbeats, which detect a child that is stuck in JavaScript or in libvirt. */
export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { clock, beatMs, signal } = options;
  let missedBeats = 0;
  let failure: string | undefined;
  const beat = async (): Promise<void> => {
    while (missedBeats < MISSED_HEARTBEATS_MAX && failure === undefined) {
      options.send();
      missedBeats += 1;
      await clock.sleep(beatMs, signal);
    }
    options.onSilent(failure ?? "it no longer answers");
  };
  beat().catch(() => undefined); // The sleep rejects when the child has ended.
  return {
    accept({ eventLoopAgeMs }): void {
      missedBeats = 0;
      if (eventLoopAgeMs > beatMs) failure = "its libvirt event loop is stuck";
    },
  };
}
