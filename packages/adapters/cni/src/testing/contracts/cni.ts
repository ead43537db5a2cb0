// SPDX-License-Identifier: Apache-2.0
// Contract of Cni, for the fake and for real plugins.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AttachmentName, AttachmentRequest, Cni } from "@patchbay/core/interfaces";

export interface CniBench {
  readonly cni: Cni;
  /** Builds a request for a NIC with this name in the sandbox. */
  requestFor(interfaceName: string): AttachmentRequest;
  /** Lists names of the NICs in the sandbox, sorted, without `lo`. */
  listNics(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Defines the tests `Cni: NAME`, each with a new bench. */
export function describeCniContract(name: string, make: () => Promise<CniBench>): void {
  describe(`Cni: ${name}`, () => {
    let bench: CniBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.close();
    });

    test("creates the requested NIC and reports it", async () => {
      const request = bench.requestFor("net1");
      const result = await bench.cni.add(request);
      const nic = result.interfaces?.find((candidate) => candidate.name === "net1");
      expect(nic?.sandbox).toBe(request.netnsPath);
      expect(nic?.mac).toMatch(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/);
      expect(await bench.listNics()).toEqual(["net1"]);
    });

    test("creates several NICs in one sandbox", async () => {
      await bench.cni.add(bench.requestFor("net1"));
      await bench.cni.add(bench.requestFor("net2"));
      expect(await bench.listNics()).toEqual(["net1", "net2"]);
    });

    test("removes the NIC, and succeeds again after it was removed", async () => {
      const request = bench.requestFor("net1");
      const result = await bench.cni.add(request);
      await bench.cni.del(request, result);
      await bench.cni.del(request, result);
      expect(await bench.listNics()).toEqual([]);
    });

    test("removes the NIC without the result of ADD", async () => {
      const request = bench.requestFor("net1");
      await bench.cni.add(request);
      await bench.cni.del(request);
      expect(await bench.listNics()).toEqual([]);
    });

    test("CHECK succeeds while the NIC exists and fails after it was removed", async () => {
      const request = bench.requestFor("net1");
      const result = await bench.cni.add(request);
      expect(await bench.cni.check(request, result)).toBe(true);
      const config = { ...request.config, disableCheck: true };
      await bench.cni.del(request, result);
      expect(await bench.cni.check({ ...request, config }, result)).toBe(false);
      await expect(bench.cni.check(request, result)).rejects.toMatchObject({
        code: "CNI_PLUGIN_FAILED",
        details: { command: "CHECK" },
      });
    });

    test("skips STATUS and GC for an older network", async () => {
      const { config } = bench.requestFor("net1");
      expect(await bench.cni.status(config)).toBe(false);
      expect(await bench.cni.gc(config, () => Promise.reject(new Error("listed")))).toBe(false);
    });

    test("rejects an interface name in use and changes nothing", async () => {
      const request = bench.requestFor("net1");
      await bench.cni.add(request);
      await expect(bench.cni.add(request)).rejects.toMatchObject({ code: "CNI_PLUGIN_FAILED" });
      expect(await bench.listNics()).toEqual(["net1"]);
    });
  });
}

/** A network of version 1.1.0 whose plugins support it. */
export interface NewCniBench extends Omit<CniBench, "listNics"> {
  /** Lists the names of attachments for which the plugins hold resources, sorted. */
  listHeld(): Promise<readonly string[]>;
  /** Makes STATUS fail with code 50. */
  breakDown(): void;
}

/** Defines the tests `Cni 1.1: NAME`, each with a new bench. */
export function describeNewCniContract(name: string, make: () => Promise<NewCniBench>): void {
  describe(`Cni 1.1: ${name}`, () => {
    let bench: NewCniBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.close();
    });
    const toName = (interfaceName: string): AttachmentName => {
      const { containerId } = bench.requestFor(interfaceName);
      return { containerId, interfaceName };
    };

    test("GC frees what is held for attachments that do not exist", async () => {
      const { config } = bench.requestFor("net1");
      for (const nic of ["net1", "net2", "net3"]) await bench.cni.add(bench.requestFor(nic));
      const valid = [toName("net2"), toName("net9")];
      expect(await bench.cni.gc(config, () => Promise.resolve(valid))).toBe(true);
      expect(await bench.listHeld()).toEqual(["net2"]);
      expect(await bench.cni.gc(config, () => Promise.resolve([]))).toBe(true);
      expect(await bench.listHeld()).toEqual([]);
    });

    test("GC lists attachments only when no ADD runs, and delays later ADDs", async () => {
      const request = bench.requestFor("net1");
      let observed: readonly string[] = [];
      const adding = bench.cni.add(request);
      const collecting = bench.cni.gc(request.config, async () => {
        observed = await bench.listHeld();
        return [toName("net1")];
      });
      await Promise.all([adding, collecting]);
      expect(observed).toEqual(["net1"]);
      expect(await bench.listHeld()).toEqual(["net1"]);
    });

    test("GC frees nothing if the network disables it or the list fails", async () => {
      const request = bench.requestFor("net1");
      await bench.cni.add(request);
      const config = { ...request.config, disableGC: true };
      expect(await bench.cni.gc(config, () => Promise.resolve([]))).toBe(false);
      const failing = bench.cni.gc(request.config, () => Promise.reject(new Error("unread")));
      await expect(failing).rejects.toThrow("unread");
      expect(await bench.listHeld()).toEqual(["net1"]);
    });

    test("reports whether the network is ready", async () => {
      const { config } = bench.requestFor("net1");
      expect(await bench.cni.status(config)).toBe(true);
      bench.breakDown();
      await expect(bench.cni.status(config)).rejects.toMatchObject({
        code: "CNI_PLUGIN_FAILED",
        details: { command: "STATUS", cniCode: 50 },
      });
    });
  });
}
