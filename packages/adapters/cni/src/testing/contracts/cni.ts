// SPDX-License-Identifier: Apache-2.0
// What every Cni must do; run on the fake and on real plugins.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AttachmentRequest, Cni } from "@patchbay/core/ports";

/** A sandbox to attach things to. */
export interface CniBench {
  readonly cni: Cni;
  /** A request for a NIC of that name in the sandbox. */
  requestFor(interfaceName: string): AttachmentRequest;
  /** Names of the NICs in the sandbox, sorted, without `lo`. */
  listNics(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Tests of the name `Cni: NAME`; each makes a bench of its own. */
export function describeCniContract(name: string, make: () => Promise<CniBench>): void {
  describe(`Cni: ${name}`, () => {
    let bench: CniBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.close();
    });

    test("makes the NIC that is asked for and says so", async () => {
      const request = bench.requestFor("net1");
      const result = await bench.cni.add(request);
      const nic = result.interfaces?.find((candidate) => candidate.name === "net1");
      expect(nic?.sandbox).toBe(request.netnsPath);
      expect(nic?.mac).toMatch(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/);
      expect(await bench.listNics()).toEqual(["net1"]);
    });

    test("makes several NICs in one sandbox", async () => {
      await bench.cni.add(bench.requestFor("net1"));
      await bench.cni.add(bench.requestFor("net2"));
      expect(await bench.listNics()).toEqual(["net1", "net2"]);
    });

    test("takes the NIC away, and again without complaint", async () => {
      const request = bench.requestFor("net1");
      const result = await bench.cni.add(request);
      await bench.cni.del(request, result);
      await bench.cni.del(request, result);
      expect(await bench.listNics()).toEqual([]);
    });

    test("takes the NIC away without the result of ADD", async () => {
      const request = bench.requestFor("net1");
      await bench.cni.add(request);
      await bench.cni.del(request);
      expect(await bench.listNics()).toEqual([]);
    });

    test("refuses a name that is taken and harms nothing", async () => {
      const request = bench.requestFor("net1");
      await bench.cni.add(request);
      await expect(bench.cni.add(request)).rejects.toMatchObject({ code: "CNI_PLUGIN_FAILED" });
      expect(await bench.listNics()).toEqual(["net1"]);
    });
  });
}
