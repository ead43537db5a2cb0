// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  parseGuestAgent,
  parseGuestFacts,
  parseGuestFreeze,
  parseGuestInterfaces,
  parseGuestSystem,
} from "./guest-agent.ts";
import { parseBeat, parseDomain, parseReply } from "./protocol.ts";

const error = { number: 1, domain: 2, level: 2, message: "m" };

describe("messages of the child", () => {
  test.each([
    { kind: "ended", connection: 1 },
    { kind: "lost", connection: 1, reason: "gone" },
    { kind: "result", connection: 1, call: 2, value: "xml" },
    { kind: "failed", connection: 1, call: 2, error },
    { kind: "event", connection: 1, event: { kind: "deviceAdded", domain: "d", alias: "ua-x" } },
    { kind: "event", connection: 1, event: { kind: "agentConnected", domain: "d" } },
    { kind: "event", connection: 1, event: { kind: "agentDisconnected", domain: "d" } },
    {
      kind: "event",
      connection: 1,
      event: { kind: "lifecycle", domain: "d", event: "started", detail: 0 },
    },
  ])("parses $kind", (message) => {
    expect(parseReply(message)).toEqual(message);
  });

  test.each([
    { name: "nothing", message: undefined },
    { name: "a string", message: "ready" },
    { name: "a list", message: [] },
    { name: "a message without a connection", message: { kind: "ended" } },
    { name: "a message of an unknown kind", message: { kind: "exec", connection: 1 } },
    { name: "a result without a call", message: { kind: "result", connection: 1 } },
    { name: "a failure without an error", message: { kind: "failed", connection: 1, call: 1 } },
    { name: "an event without content", message: { kind: "event", connection: 1, event: null } },
    {
      name: "an unknown event",
      message: { kind: "event", connection: 1, event: { kind: "x", domain: "d", alias: "a" } },
    },
    {
      name: "an event without a domain",
      message: { kind: "event", connection: 1, event: { kind: "agentConnected", domain: 7 } },
    },
    {
      name: "a device event without an alias",
      message: { kind: "event", connection: 1, event: { kind: "deviceAdded", domain: "d" } },
    },
    {
      name: "an unknown lifecycle event",
      message: {
        kind: "event",
        connection: 1,
        event: { kind: "lifecycle", domain: "d", event: "x" },
      },
    },
  ])("rejects $name", ({ message }) => {
    expect(parseReply(message)).toBeUndefined();
  });

  test.each([
    {
      message: { kind: "beat", eventLoopAgeMs: 5, more: 1 },
      want: { kind: "beat", eventLoopAgeMs: 5 },
    },
    { message: { kind: "beat" }, want: undefined },
    { message: { kind: "ended", eventLoopAgeMs: 5 }, want: undefined },
    { message: null, want: undefined },
  ])("parses $message as a heartbeat", ({ message, want }) => {
    expect(parseBeat(message)).toEqual(want);
  });

  test("missing numbers are -1", () => {
    const lifecycle = { kind: "lifecycle", domain: "d", event: "started" };
    expect(parseReply({ kind: "event", connection: 1, event: lifecycle })).toEqual({
      kind: "event",
      connection: 1,
      event: { ...lifecycle, detail: -1 },
    });
    const failed = { kind: "failed", connection: 1, call: 2 };
    expect(parseReply({ ...failed, error: { number: "1", message: "m" } })).toEqual({
      ...failed,
      error: { number: -1, domain: -1, level: -1, message: "m" },
    });
  });

  test.each([
    {
      name: "a migration iteration",
      event: { kind: "migrationIteration", domain: "d", detail: 3 },
      want: { kind: "migrationIteration", domain: "d", iteration: 3 },
    },
    {
      name: "the end of a job with the guest's downtime",
      event: { kind: "jobCompleted", domain: "d", detail: 136 },
      want: { kind: "jobCompleted", domain: "d", downtimeMs: 136 },
    },
    {
      name: "the end of a job without downtime",
      event: { kind: "jobCompleted", domain: "d", detail: 0 },
      want: { kind: "jobCompleted", domain: "d", downtimeMs: 0 },
    },
    {
      name: "the end of a job with unknown downtime",
      event: { kind: "jobCompleted", domain: "d", detail: -1 },
      want: { kind: "jobCompleted", domain: "d" },
    },
  ])("parses $name", ({ event, want }) => {
    const reply = parseReply({ kind: "event", connection: 1, event });
    expect(reply).toEqual({ kind: "event", connection: 1, event: want });
  });

  test("parses the migration states `left` and `leaving` only", () => {
    const domain = { name: "d", uuid: "u", state: "shutoff", persistent: true };
    for (const move of ["left", "leaving"]) {
      expect(parseDomain({ ...domain, move })).toEqual({ ...domain, move });
    }
    expect(parseDomain({ ...domain, move: "" })).toEqual(domain);
  });

  test.each([
    { name: "a disk error", info: { hasDiskError: true }, want: { hasDiskError: true } },
    { name: "no disk error", info: { hasDiskError: 1 }, want: {} },
    { name: "no persistent configuration", info: { persistent: 1 }, want: { persistent: false } },
  ])("parses a domain with $name", ({ info, want }) => {
    const domain = { name: "d", uuid: "u", state: "paused", persistent: true };
    expect(parseDomain({ ...domain, ...info })).toStrictEqual({ ...domain, ...want });
  });

  test("truncates a long message", () => {
    const reply = parseReply({ kind: "lost", connection: 1, reason: "x".repeat(5000) });
    expect(reply).toEqual({ kind: "lost", connection: 1, reason: "x".repeat(1000) });
  });

  test.each([
    {
      name: "a domain",
      value: { name: "d", uuid: "u", state: "running", persistent: true },
      is: true,
    },
    { name: "nothing", value: undefined, is: false },
    { name: "a domain without a name", value: { uuid: "u", state: "running" }, is: false },
    { name: "a domain without a UUID", value: { name: "d", state: "running" }, is: false },
    {
      name: "a domain with an unknown state",
      value: { name: "d", uuid: "u", state: "x" },
      is: false,
    },
  ])("parses as a domain: $name", ({ value, is }) => {
    expect(parseDomain(value) !== undefined).toBe(is);
  });

  test.each([
    {
      name: "a list of NICs",
      value: [{ name: "eth0", mac: "m", addresses: ["10.0.0.1"] }],
      want: [{ name: "eth0", mac: "m", addresses: ["10.0.0.1"] }],
    },
    {
      name: "entries without names",
      value: [{ name: 1, addresses: [1, "a".repeat(5000)] }],
      want: [{ name: "", mac: "", addresses: ["", "a".repeat(1000)] }],
    },
    {
      name: "addresses that are not a list",
      value: [{ name: "eth0", mac: "m", addresses: "10.0.0.1" }],
      want: [{ name: "eth0", mac: "m", addresses: [] }],
    },
    { name: "invalid entries", value: [null, "eth0"], want: [] },
    { name: "an answer that is not a list", value: { length: 1 }, want: [] },
  ])("parses as the guest's NICs: $name", ({ value, want }) => {
    expect(parseGuestInterfaces(value)).toEqual(want);
  });

  test.each([
    {
      name: "libvirt's names",
      value: { "os.id": "debian", "os.kernel-release": "6.1.0", "os.new": "x", "os.version": 12 },
      want: { id: "debian", kernelRelease: "6.1.0" },
    },
    {
      name: "a long string",
      value: { "os.name": "x".repeat(5000) },
      want: { name: "x".repeat(1000) },
    },
    { name: "an answer that is not an object", value: ["os.id"], want: {} },
    { name: "nothing", value: undefined, want: {} },
  ])("parses as the guest's system: $name", ({ value, want }) => {
    expect(parseGuestSystem(value)).toEqual(want);
  });

  test.each([
    {
      name: "valid names and values",
      value: { "user.count": "1", "user.0.name": "root", "user.0.domain": "", other: 7 },
      want: { "user.count": "1", "user.0.name": "root" },
    },
    { name: "an answer that is not an object", value: null, want: {} },
  ])("parses as facts of the guest: $name", ({ value, want }) => {
    expect(parseGuestFacts(value)).toEqual(want);
  });
});

describe("an agent's description of itself", () => {
  const buildReply = (info: unknown): string => JSON.stringify({ return: info });
  const PING = { name: "guest-ping", enabled: true, "success-response": true };
  test.each<{ name: string; value: unknown; want: object }>([
    {
      name: "contains its version and commands",
      value: buildReply({
        version: "7.2.0",
        supported_commands: [null, PING, 7, { name: "guest-exec", enabled: 1 }],
      }),
      want: {
        "agent.version": "7.2.0",
        "agent.command.count": "2",
        "agent.command.0.name": "guest-ping",
        "agent.command.0.enabled": "true",
        "agent.command.1.name": "guest-exec",
        "agent.command.1.enabled": "false",
      },
    },
    {
      name: "contains only its version if it has no commands",
      value: buildReply({ version: "1", supported_commands: "all" }),
      want: { "agent.version": "1", "agent.command.count": "0" },
    },
    { name: "is empty for another type", value: buildReply([1]), want: {} },
    {
      name: "is empty for a truncated text",
      value: buildReply({ version: "1" }).slice(0, 20),
      want: {},
    },
    { name: "is empty for a value that is not text", value: 7, want: {} },
  ])("$name", ({ value, want }) => {
    expect(parseGuestAgent(value)).toEqual(want);
  });

  test.each([
    { value: buildReply("thawed"), want: { "freeze.status": "thawed" } },
    { value: buildReply({}), want: {} },
    { value: "no JSON", want: {} },
  ])("contains the freeze status: $want", ({ value, want }) => {
    expect(parseGuestFreeze(value)).toEqual(want);
  });

  test("has at most 256 commands", () => {
    const value = buildReply({ supported_commands: Array.from({ length: 300 }, () => PING) });
    expect(parseGuestAgent(value)["agent.command.count"]).toBe("256");
  });
});
