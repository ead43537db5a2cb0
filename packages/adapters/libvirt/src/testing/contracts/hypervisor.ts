// SPDX-License-Identifier: Apache-2.0
// Contract of Hypervisor, for the fake, libvirt's test driver and QEMU.

import { setTimeout } from "node:timers/promises";
import { AppError } from "@patchbay/base";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type {
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  HypervisorEvent,
} from "@patchbay/core/interfaces";

export interface HypervisorBench {
  readonly hypervisor: Hypervisor;
  readonly address: HypervisorAddress;
  /** Address at which no daemon listens. */
  readonly deadAddress: HypervisorAddress;
  /** Returns the XML of a domain with this name; for hotplug it has two free ports and no NIC. */
  domainXml(name: string): string;
  close(): Promise<void>;
}

export function describeHypervisorContract(
  name: string,
  make: () => Promise<HypervisorBench>,
): void {
  describe(`Hypervisor: ${name}`, () => {
    let bench: HypervisorBench;
    let connection: HypervisorConnection;
    let events: EventLog;
    beforeEach(async () => {
      bench = await make();
      connection = await bench.hypervisor.open(bench.address);
      events = new EventLog(connection);
    });
    afterEach(async () => {
      await connection.destroyDomain("vm1").catch(() => undefined); // most tests have none
      await bench.close();
    });

    test("does not find a missing domain", async () => {
      expect(await connection.findDomain("nobody")).toBeUndefined();
    });

    test("a defined domain is persistent and off", async () => {
      await connection.defineDomain(bench.domainXml("vm1"));
      await events.next("defined");
      const found = await connection.findDomain("vm1");
      expect(found).toMatchObject({ name: "vm1", state: "shutoff", persistent: true });
      expect(await connection.readDomainXml("vm1", "config")).toContain("<name>vm1</name>");
    });

    test("redefines a domain under its UUID only", async () => {
      await connection.defineDomain(bench.domainXml("vm1"));
      await expect(connection.defineDomain(bench.domainXml("vm1"))).rejects.toMatchObject({
        code: "LIBVIRT_REFUSED",
      });
      const uuid = (await connection.findDomain("vm1"))?.uuid ?? "";
      const named = bench.domainXml("vm1").replace("</name>", `</name><uuid>${uuid}</uuid>`);
      await connection.defineDomain(named);
      expect((await connection.findDomain("vm1"))?.uuid).toBe(uuid);
    });

    test("several requests start a domain once", async () => {
      await connection.defineDomain(bench.domainXml("vm1"));
      await connection.startDomain("vm1");
      await connection.startDomain("vm1");
      await events.next("started");
      expect((await connection.findDomain("vm1"))?.state).toBe("running");
    });

    test("several requests destroy a domain once", async () => {
      await connection.defineDomain(bench.domainXml("vm1"));
      await connection.startDomain("vm1");
      await connection.destroyDomain("vm1");
      await connection.destroyDomain("vm1");
      await events.next("stopped");
      expect((await connection.findDomain("vm1"))?.state).toBe("shutoff");
    });

    test("suspends and resumes a domain, each once for several requests", async () => {
      await connection.defineDomain(bench.domainXml("vm1"));
      await connection.startDomain("vm1");
      await connection.suspendDomain("vm1");
      await connection.suspendDomain("vm1");
      await events.next("suspended");
      expect((await connection.findDomain("vm1"))?.state).toBe("paused");
      await connection.resumeDomain("vm1");
      await connection.resumeDomain("vm1");
      await events.next("resumed");
      expect((await connection.findDomain("vm1"))?.state).toBe("running");
    });

    test.each(["suspendDomain", "resumeDomain", "rebootDomain", "resetDomain"] as const)(
      "rejects %s of a domain that does not run",
      async (call) => {
        await connection.defineDomain(bench.domainXml("vm1"));
        await expect(connection[call]("vm1")).rejects.toBeInstanceOf(AppError);
      },
    );

    test.each([
      "startDomain",
      "shutdownDomain",
      "destroyDomain",
      "suspendDomain",
      "resumeDomain",
      "rebootDomain",
      "resetDomain",
    ] as const)("%s reports a missing domain", async (call) => {
      await expect(connection[call]("nobody")).rejects.toMatchObject({
        code: "LIBVIRT_NO_DOMAIN",
      });
    });

    test("reading the XML of a missing domain reports that the domain is missing", async () => {
      await expect(connection.readDomainXml("nobody", "live")).rejects.toMatchObject({
        code: "LIBVIRT_NO_DOMAIN",
      });
    });

    test("rejects invalid XML", async () => {
      await expect(connection.defineDomain("<domain>")).rejects.toMatchObject({
        code: "LIBVIRT_REFUSED",
      });
    });

    test("responds to all concurrent calls", async () => {
      const names = Array.from({ length: 50 }, (_unused, index) => `vm${String(index + 100)}`);
      const found = await Promise.all(names.map((each) => connection.findDomain(each)));
      expect(found).toEqual(names.map(() => undefined));
    });

    test("a removed listener receives nothing", async () => {
      const received: HypervisorEvent[] = [];
      const stop = connection.onEvent((event) => received.push(event));
      stop();
      await connection.defineDomain(bench.domainXml("vm1"));
      await events.next("defined");
      expect(received).toEqual([]);
    });

    test("closing a connection does not close others", async () => {
      const other = await bench.hypervisor.open(bench.address);
      await other.close();
      await other.close();
      expect(await other.closed).toEqual({ reason: "closed", by: "us" });
      await expect(other.findDomain("vm1")).rejects.toMatchObject({
        code: "LIBVIRT_CONNECTION_LOST",
      });
      expect(await connection.findDomain("vm1")).toBeUndefined();
    });

    test("a guest that does not run has no agent", async () => {
      await connection.defineDomain(bench.domainXml("vm1"));
      await expect(connection.readGuestInterfaces("vm1")).rejects.toBeInstanceOf(AppError);
      await expect(connection.readGuestSystem("vm1")).rejects.toBeInstanceOf(AppError);
      await expect(connection.readGuestFacts("vm1", "users")).rejects.toBeInstanceOf(AppError);
      await expect(connection.readGuestFacts("vm1", "agent")).rejects.toBeInstanceOf(AppError);
      await expect(connection.readGuestFacts("vm1", "freeze")).rejects.toBeInstanceOf(AppError);
      await expect(connection.readGuestFacts("vm1", "routes")).rejects.toBeInstanceOf(AppError);
      await expect(connection.readGuestInterfaces("nobody")).rejects.toMatchObject({
        code: "LIBVIRT_NO_DOMAIN",
      });
    });

    test("opening fails if no daemon listens", async () => {
      await expect(bench.hypervisor.open(bench.deadAddress)).rejects.toMatchObject({
        code: "LIBVIRT_UNREACHABLE",
      });
    });
  });
}

function describeEvent(event: HypervisorEvent): string {
  if (event.kind === "lifecycle") return event.event;
  return "alias" in event ? `${event.kind} ${event.alias}` : event.kind;
}

/** Longest wait for an event in milliseconds; on a busy machine one took two seconds. */
const EVENT_TIMEOUT_MS = 120_000;

/** Log of a connection's events, which tests wait for. */
export class EventLog {
  readonly #received: string[] = [];
  readonly #waiting = new Map<string, () => void>();
  readonly #describe: () => Promise<string>;

  /** `describe` returns the state of the guest, for the error if an event is missing. */
  constructor(
    connection: HypervisorConnection,
    describe: () => Promise<string> = () => Promise.resolve(""),
  ) {
    this.#describe = describe;
    connection.onEvent((event) => {
      const description = describeEvent(event);
      this.#received.push(description);
      this.#waiting.get(description)?.();
    });
  }

  /** All received events, as `started` or `deviceAdded ua-x`. */
  get received(): readonly string[] {
    return this.#received;
  }

  /**
   * Resolves when the event was received.
   *
   * @throws Error after two minutes, with the received events and the state of the guest.
   */
  async next(description: string): Promise<void> {
    if (this.#received.includes(description)) return;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.#waiting.set(description, () => {
      resolve(undefined);
    });
    const deadline = new AbortController();
    const timeout = setTimeout(EVENT_TIMEOUT_MS, "late", { signal: deadline.signal });
    try {
      if ((await Promise.race([promise, timeout])) !== "late") return;
    } finally {
      deadline.abort();
      timeout.catch(() => undefined);
    }
    const state = await this.#describe();
    throw new Error(`no "${description}"; events: ${this.#received.join(", ")}; ${state}`);
  }
}
