// SPDX-License-Identifier: Apache-2.0
// Contract of migrations, for the fake, and for QEMU between two daemons. A domain never runs in two places.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type {
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  Migration,
} from "@patchbay/core/interfaces";
import { EventLog } from "./hypervisor.ts";

/** Two daemons, and the connections between them. */
export interface MoveBench {
  readonly hypervisor: Hypervisor;
  readonly source: HypervisorAddress;
  readonly target: HypervisorAddress;
  /** URIs that lead from the source to the target. */
  readonly ways: Pick<Migration, "peerUri" | "memoryUri">;
  /** Returns the XML of a domain with this name and one NIC. */
  domainXml(name: string, tap: 1 | 2): string;
  /** Makes migrations last, together with the minimum speed. */
  hold(): void;
  /** Breaks the connection to the target's daemon during a migration of the domain. */
  breakConnection(name: string): void;
  close(): Promise<void>;
}

const NAME = "vm1";

export function describeMoveContract(name: string, make: () => Promise<MoveBench>): void {
  describe(`migrations between daemons: ${name}`, () => {
    let bench: MoveBench;
    let source: HypervisorConnection;
    let steering: HypervisorConnection;
    let target: HypervisorConnection;
    let uuid = "";

    beforeEach(async () => {
      bench = await make();
      source = await bench.hypervisor.open(bench.source);
      steering = await bench.hypervisor.open(bench.source);
      target = await bench.hypervisor.open(bench.target);
      await source.defineDomain(bench.domainXml(NAME, 1));
      await source.startDomain(NAME);
      uuid = (await source.findDomain(NAME))?.uuid ?? "";
    });
    afterEach(() => bench.close());

    /** Returns the source's XML with the target's tap. */
    async function migration(change: (xml: string) => string = (xml) => xml): Promise<Migration> {
      const [liveXml = "", configXml = ""] = await Promise.all(
        (["moving", "config"] as const).map((part) => source.readDomainXml(NAME, part)),
      );
      const toTarget = (xml: string): string => change(xml.replaceAll("tapc1", "tapc2"));
      return { ...bench.ways, liveXml: toTarget(liveXml), configXml: toTarget(configXml) };
    }

    /** Reads the states of the domain on source and target; undefined if it does not exist. */
    async function states(): Promise<readonly (string | undefined)[]> {
      const found = await Promise.all([steering, target].map((one) => one.findDomain(NAME)));
      return found.map((domain) => domain?.state);
    }

    /** Starts a migration that lasts. Returns its later failure. */
    async function begin(): Promise<{ readonly failure: Promise<unknown> }> {
      const request = await migration();
      await steering.setMaxSpeed(NAME, 1);
      bench.hold();
      const failure = source.migrateDomain(NAME, request).catch((error: unknown) => error);
      await expect
        .poll(() => steering.readJob(NAME))
        .toMatchObject({ state: "running", move: "out" });
      return { failure };
    }

    test("a migrated domain is paused with its NIC and definition, off at the source, and can resume", async () => {
      const events = new EventLog(source);
      await source.migrateDomain(NAME, await migration());
      await events.next("stopped");
      expect(await source.findDomain(NAME)).toMatchObject({ state: "shutoff", move: "left" });
      expect(await target.findDomain(NAME)).toMatchObject({
        name: NAME,
        uuid,
        state: "paused",
        persistent: true,
      });
      for (const part of ["live", "config"] as const) {
        const xml = await target.readDomainXml(NAME, part);
        expect([xml.includes("tapc2"), xml.includes("tapc1")]).toEqual([true, false]);
      }
      await target.resumeDomain(NAME);
      expect(await states()).toEqual(["shutoff", "running"]);
    });

    test("reports the end of a migration; there is no job before and after it", async () => {
      expect(await steering.readJob(NAME)).toEqual({ state: "none" });
      const ended = Promise.withResolvers<string>();
      source.onEvent((event) => {
        if (event.kind === "jobCompleted") ended.resolve(event.domain);
      });
      await source.migrateDomain(NAME, await migration());
      expect(await ended.promise).toBe(NAME);
      await expect(steering.abortJob(NAME)).resolves.toBeUndefined();
    });

    test("a migration that another connection aborts leaves the domain at the source", async () => {
      const { failure } = await begin();
      await steering.setMaxDowntime(NAME, 900);
      await steering.abortJob(NAME);
      expect(await failure).toMatchObject({ code: "LIBVIRT_JOB_ABORTED" });
      expect((await states())[0]).toBe("running");
      expect((await states())[1]).not.toBe("running");
      await steering.abortJob(NAME);
    });

    test("a broken migration connection leaves the domain and the source's connection intact", async () => {
      const { failure } = await begin();
      bench.breakConnection(NAME);
      expect(await failure).toMatchObject({ code: "LIBVIRT_PEER_LOST" });
      expect(await source.findDomain(NAME)).toMatchObject({ state: "running" });
      await expect.poll(async () => (await states())[1]).not.toBe("running");
    });

    test("rejects a different layout before it sends anything", async () => {
      const otherMac = (xml: string): string =>
        xml.replaceAll("02:00:00:00:00:01", "02:00:00:00:00:09");
      const request = await migration(otherMac);
      await expect(source.migrateDomain(NAME, request)).rejects.toMatchObject({
        code: "LIBVIRT_REFUSED",
      });
      expect(await states()).toEqual(["running", undefined]);
    });

    test("reports a target that does not listen; the domain continues to run", async () => {
      const request = {
        ...(await migration()),
        peerUri: "qemu+unix:///session?socket=/nonexistent",
      };
      await expect(source.migrateDomain(NAME, request)).rejects.toMatchObject({
        code: "LIBVIRT_PEER_LOST",
      });
      expect(await states()).toEqual(["running", undefined]);
    });

    test("rejects the migration of a domain that is off", async () => {
      const request = await migration();
      await source.destroyDomain(NAME);
      await expect(source.migrateDomain(NAME, request)).rejects.toMatchObject({
        code: "LIBVIRT_NOT_RUNNING",
      });
      expect(await states()).toEqual(["shutoff", undefined]);
    });
  });
}
