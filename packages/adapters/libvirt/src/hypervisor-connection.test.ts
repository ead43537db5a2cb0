// SPDX-License-Identifier: Apache-2.0
// One connection on a child whose replies the test writes.
import type { HypervisorEvent } from "@patchbay/core/interfaces";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { LibvirtConnection } from "./hypervisor.ts";
import type { Reply, Request } from "./protocol.ts";

const ID = 5;
const OPEN: Request = { kind: "open", connection: ID, uri: "test:///default" };
const NATIVE = { number: 9, domain: 10, level: 2, message: "it failed" };
const LIFECYCLE: HypervisorEvent = {
  kind: "lifecycle",
  domain: "vm1",
  event: "started",
  detail: 0,
};

let clock = createFakeClock();
let requests: Request[];
let losses: number;
let connection: LibvirtConnection;

beforeEach(() => {
  clock = createFakeClock();
  requests = [];
  losses = 0;
  connection = new LibvirtConnection({
    id: ID,
    clock,
    callTimeoutMs: 1000,
    send: (request) => {
      requests.push(request);
    },
    onLost: () => {
      losses += 1;
    },
  });
});

/** The reply to the last call. */
async function reply(value?: unknown): Promise<void> {
  await settle();
  const last = requests.at(-1);
  const call = last?.kind === "call" ? last.call : 0;
  connection.accept({ kind: "result", connection: ID, call, value });
}

async function fail(error = NATIVE): Promise<void> {
  await settle();
  const last = requests.at(-1);
  const call = last?.kind === "call" ? last.call : 0;
  connection.accept({ kind: "failed", connection: ID, call, error });
}

const XML = "<interface><alias name='ua-red'/></interface>";
const WRAPPED = '<interface><alias\n    name="ua-red"/></interface>';
const DOMAIN = { name: "vm1", uuid: "u", state: "running", persistent: true };
const AGENT = JSON.stringify({ return: { version: "7.2.0" } });

interface Row {
  readonly operation: string;
  readonly call: (its: LibvirtConnection) => Promise<unknown>;
  readonly args: readonly string[];
  /** What the error of the call names. */
  readonly names: object;
  readonly value?: unknown;
  readonly want?: unknown;
}

describe("a call", () => {
  const ofDomain = (call: string) => ({ call, domain: "vm1" });
  test.each<Row>([
    {
      operation: "findDomain",
      call: (its) => its.findDomain("vm1"),
      args: ["vm1"],
      names: { call: "virDomainLookupByName" },
      value: DOMAIN,
      want: DOMAIN,
    },
    {
      operation: "readDomainXml",
      call: (its) => its.readDomainXml("vm1", "live"),
      args: ["vm1", "live"],
      names: ofDomain("virDomainGetXMLDesc"),
      value: "<domain/>",
      want: "<domain/>",
    },
    {
      operation: "readDomainXml",
      call: (its) => its.readDomainXml("vm1", "moving"),
      args: ["vm1", "moving"],
      names: ofDomain("virDomainGetXMLDesc"),
      value: 7,
      want: "",
    },
    {
      operation: "defineDomain",
      call: (its) => its.defineDomain("<domain/>"),
      args: ["<domain/>"],
      names: { call: "virDomainDefineXMLFlags" },
    },
    {
      operation: "startDomain",
      call: (its) => its.startDomain("vm1"),
      args: ["vm1", "running"],
      names: ofDomain("virDomainCreateWithFlags"),
    },
    {
      operation: "startDomain",
      call: (its) => its.startDomain("vm1", "paused"),
      args: ["vm1", "paused"],
      names: ofDomain("virDomainCreateWithFlags"),
    },
    {
      operation: "shutdownDomain",
      call: (its) => its.shutdownDomain("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainShutdown"),
    },
    {
      operation: "destroyDomain",
      call: (its) => its.destroyDomain("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainDestroy"),
    },
    {
      operation: "suspendDomain",
      call: (its) => its.suspendDomain("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainSuspend"),
    },
    {
      operation: "resumeDomain",
      call: (its) => its.resumeDomain("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainResume"),
    },
    {
      operation: "rebootDomain",
      call: (its) => its.rebootDomain("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainReboot"),
    },
    {
      operation: "resetDomain",
      call: (its) => its.resetDomain("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainReset"),
    },
    {
      operation: "attachDevice",
      call: (its) => its.attachDevice("vm1", XML, "live"),
      args: ["vm1", XML, "live"],
      names: { ...ofDomain("virDomainAttachDeviceFlags"), device: "ua-red" },
    },
    {
      operation: "attachDevice",
      call: (its) => its.attachDevice("vm1", WRAPPED, "config"),
      args: ["vm1", WRAPPED, "config"],
      names: { ...ofDomain("virDomainAttachDeviceFlags"), device: "ua-red" },
    },
    {
      operation: "detachDevice",
      call: (its) => its.detachDevice("vm1", "ua-red", "live"),
      args: ["vm1", "ua-red", "live"],
      names: { ...ofDomain("virDomainDetachDeviceAlias"), device: "ua-red" },
    },
    {
      operation: "updateDevice",
      call: (its) => its.updateDevice("vm1", "<interface/>", "live"),
      args: ["vm1", "<interface/>", "live"],
      names: ofDomain("virDomainUpdateDeviceFlags"),
    },
    {
      operation: "readGuestInterfaces",
      call: (its) => its.readGuestInterfaces("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainInterfaceAddresses"),
      value: [{ name: "eth0", mac: "m", addresses: ["10.0.0.1"] }],
      want: [{ name: "eth0", mac: "m", addresses: ["10.0.0.1"] }],
    },
    {
      operation: "readGuestInfo",
      call: (its) => its.readGuestSystem("vm1"),
      args: ["vm1", "system"],
      names: ofDomain("virDomainGetGuestInfo"),
      value: { "os.id": "debian" },
      want: { id: "debian" },
    },
    {
      operation: "readGuestInfo",
      call: (its) => its.readGuestFacts("vm1", "users"),
      args: ["vm1", "users"],
      names: ofDomain("virDomainGetGuestInfo"),
      value: { "user.count": "1" },
      want: { "user.count": "1" },
    },
    {
      operation: "askGuestAgent",
      call: (its) => its.readGuestFacts("vm1", "agent"),
      args: ["vm1", "agent"],
      names: ofDomain("virDomainQemuAgentCommand"),
      value: AGENT,
      want: { "agent.version": "7.2.0", "agent.command.count": "0" },
    },
    {
      operation: "askGuestAgent",
      call: (its) => its.readGuestFacts("vm1", "freeze"),
      args: ["vm1", "freeze"],
      names: ofDomain("virDomainQemuAgentCommand"),
      value: JSON.stringify({ return: "thawed" }),
      want: { "freeze.status": "thawed" },
    },
    {
      operation: "migrateDomain",
      call: (its) => its.migrateDomain("vm1", { peerUri: "qemu:peer", memoryUri: "unix:memory" }),
      args: ["vm1", "qemu:peer", "43", "migrate_uri", "unix:memory"],
      names: ofDomain("virDomainMigrateToURI3"),
    },
    {
      operation: "readJob",
      call: (its) => its.readJob("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainGetJobStats"),
      value: { type: "running", data_total: "7" },
      want: { state: "running", totalBytes: 7 },
    },
    {
      operation: "abortJob",
      call: (its) => its.abortJob("vm1"),
      args: ["vm1"],
      names: ofDomain("virDomainAbortJob"),
    },
    {
      operation: "setMaxDowntime",
      call: (its) => its.setMaxDowntime("vm1", 300),
      args: ["vm1", "300"],
      names: ofDomain("virDomainMigrateSetMaxDowntime"),
    },
    {
      operation: "setMaxSpeed",
      call: (its) => its.setMaxSpeed("vm1", 64),
      args: ["vm1", "64"],
      names: ofDomain("virDomainMigrateSetMaxSpeed"),
    },
  ])("$operation with $args", async ({ operation, call, args, names, value, want }) => {
    const calling = call(connection);
    await reply(value);
    expect(await calling).toEqual(want);
    expect(requests).toEqual([
      { kind: "call", connection: ID, call: 1, operation, arguments: args },
    ]);
    const failure = call(connection).catch((error: unknown) => error);
    await fail();
    expect(await failure).toMatchObject({
      code: "LIBVIRT_REFUSED",
      details: { ...names, message: "it failed", number: 9, domainNumber: 10 },
    });
    expect([losses, clock.dueMs]).toEqual([0, []]);
  });

  test("about a guest's routes queries the agent, then reads the guest's route file", async () => {
    const facts = connection.readGuestFacts("vm1", "routes");
    await reply("no JSON");
    for (const value of [JSON.stringify({ return: 7 }), "no JSON", "{}"]) await reply(value);
    expect(await facts).toEqual({});
    expect(
      requests.map((request) =>
        request.kind === "call" ? [request.operation, ...request.arguments] : request.kind,
      ),
    ).toEqual([
      ["askGuestAgent", "vm1", "routes"],
      ["askGuestAgent", "vm1", "openRoutes"],
      ["askAboutGuestFile", "vm1", "readFile", "7"],
      ["askAboutGuestFile", "vm1", "closeFile", "7"],
    ]);
  });

  test("that fails does not stop the next one, and unknown replies are ignored", async () => {
    const first = connection.defineDomain("a").catch(() => "failed");
    const second = connection.defineDomain("b");
    await fail();
    expect(await first).toBe("failed");
    await settle();
    connection.accept({ kind: "result", connection: ID, call: 1 });
    connection.accept({ kind: "failed", connection: ID, call: 77, error: NATIVE });
    await reply();
    await second;
  });

  test("whose daemon closes the connection abandons it", async () => {
    const failure = connection.defineDomain("a").catch((error: unknown) => error);
    await fail({ number: 1, domain: 7, level: 2, message: "client socket is closed" });
    expect(await failure).toMatchObject({ code: "LIBVIRT_CONNECTION_LOST" });
    expect(await connection.closed).toEqual({ reason: "client socket is closed", by: "daemon" });
    expect(losses).toBe(1);
  });

  test.each<Pick<Row, "operation" | "call"> & { due: readonly number[] }>([
    {
      operation: "migrateDomain",
      call: (its) => its.migrateDomain("vm1", { peerUri: "p", memoryUri: "m" }),
      due: [],
    },
    { operation: "abortJob", call: (its) => its.abortJob("vm1"), due: [1000] },
  ])("$operation has its deadline at $due ms", async ({ call, due }) => {
    const calling = call(connection);
    await settle();
    expect(clock.dueMs).toEqual(due);
    await reply();
    await calling;
  });

  test("without a reply before its deadline ends the connection", async () => {
    const failure = connection.abortJob("vm1").catch((error: unknown) => error);
    await settle();
    await clock.advance(1000);
    expect(await failure).toMatchObject({
      code: "LIBVIRT_TIMED_OUT",
      details: { call: "virDomainAbortJob", timeoutMs: 1000 },
    });
    expect(await connection.closed).toEqual({
      reason: "no answer to virDomainAbortJob",
      by: "daemon",
    });
  });
});

describe("opening", () => {
  test("succeeds with the child's reply", async () => {
    const opened = connection.open(OPEN, 2000);
    await settle();
    expect([requests, clock.dueMs]).toEqual([[OPEN], [2000]]);
    await reply();
    await opened;
    expect(losses).toBe(0);
  });

  test.each<{ name: string; act: () => unknown; want: object }>([
    {
      name: "fails because libvirt refuses it",
      act: () => fail(),
      want: { code: "LIBVIRT_UNREACHABLE", details: { message: "it failed" } },
    },
    {
      name: "fails because the connection is lost",
      act: () => {
        connection.abandon("the child ended");
      },
      want: { code: "LIBVIRT_UNREACHABLE", details: { message: "the connection was lost" } },
    },
    {
      name: "takes too long",
      act: () => clock.advance(2000),
      want: { code: "LIBVIRT_TIMED_OUT", details: { call: "virConnectOpen", timeoutMs: 2000 } },
    },
  ])("that $name is reported, and abandons the connection", async ({ act, want }) => {
    const failure = connection.open(OPEN, 2000).catch((error: unknown) => error);
    await settle();
    await act();
    expect(await failure).toMatchObject(want);
    expect(losses).toBe(1);
    expect(requests.at(-1)).toEqual({ kind: "close", connection: ID });
  });
});

describe("the end of a connection", () => {
  test.each<{ name: string; reply: Reply; reason: string }>([
    {
      name: "a lost connection to libvirt",
      reply: { kind: "lost", connection: ID, reason: "keepalive" },
      reason: "keepalive",
    },
    {
      name: "an end reported by the child",
      reply: { kind: "ended", connection: ID },
      reason: "it has ended",
    },
  ])("$name fails the call in flight and queued ones, once", async ({ reply: last, reason }) => {
    const failures = ["a", "b"].map((xml) =>
      connection.defineDomain(xml).catch((error: unknown) => error),
    );
    await settle();
    connection.accept(last);
    connection.abandon("again");
    for (const failure of await Promise.all(failures)) {
      expect(failure).toMatchObject({
        code: "LIBVIRT_CONNECTION_LOST",
        details: { message: reason },
      });
    }
    expect(await connection.closed).toEqual({ reason, by: "daemon" });
    expect(requests.map(({ kind }) => kind)).toEqual(["call", "close"]);
    expect([losses, clock.dueMs]).toEqual([1, []]);
  });

  test("by the caller is not attributed to the daemon", async () => {
    await connection.close();
    expect(await connection.closed).toEqual({ reason: "closed", by: "us" });
  });
});

test("each listener receives events until it is removed or the connection ends", () => {
  const observed: string[] = [];
  const stop = connection.onEvent(({ kind }) => observed.push(`one ${kind}`));
  connection.onEvent(({ kind }) => observed.push(`two ${kind}`));
  const event: Reply = { kind: "event", connection: ID, event: LIFECYCLE };
  connection.accept(event);
  stop();
  connection.accept(event);
  connection.abandon("gone");
  connection.onEvent(({ kind }) => observed.push(`three ${kind}`));
  connection.accept(event);
  expect(observed).toEqual(["one lifecycle", "two lifecycle", "two lifecycle"]);
});
