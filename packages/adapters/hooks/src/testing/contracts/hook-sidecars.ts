// SPDX-License-Identifier: Apache-2.0
// Contract of HookSidecars.
import type { HookSidecar, HookSidecars } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FakeHook } from "../fakes/hook-sidecars.ts";

/** Pod whose sidecars a test starts and ends. */
export interface HooksBench {
  /** Adapter with short deadlines. */
  readonly hooks: HookSidecars;
  start(container: string, hook: FakeHook): Promise<void>;
  /** Ends the sidecar's process. */
  end(container: string): Promise<void>;
  close(): Promise<void>;
}

const POD = { uid: "uid-1", namespace: "default", name: "virt-launcher-vm1" };
const INFO = {
  name: "marks",
  versions: ["v1alpha2", "v1alpha3"],
  hookPoints: [
    { name: "OnDefineDomain", priority: 7 },
    { name: "Shutdown", priority: 0 },
  ],
};

/** Defines the contract's tests; `open` creates a pod without sidecars. */
export function describeHookSidecarsContract(name: string, open: () => Promise<HooksBench>): void {
  describe(`hook sidecars: ${name}`, () => {
    let bench: HooksBench;
    let sidecar: HookSidecar | undefined;

    beforeEach(async () => {
      bench = await open();
    });
    afterEach(async () => {
      await sidecar?.close();
      sidecar = undefined;
      await bench.close();
    });

    async function connect(): Promise<HookSidecar> {
      sidecar = await bench.hooks.connect(POD, "hook-sidecar-0");
      return sidecar;
    }

    test("a hook reports its name and its hook points", async () => {
      await bench.start("hook-sidecar-0", { info: INFO });
      expect(await (await connect()).info()).toEqual(INFO);
    });

    test.each(["v1alpha2", "v1alpha3"] as const)("calls OnDefineDomain in %s", async (version) => {
      await bench.start("hook-sidecar-0", {
        info: INFO,
        onDefineDomain: (xml, vmi) => `${xml}, and of ${vmi} ä`,
      });
      const request = { version, domainXml: "<domain/>", vmi: '{"kind":"VMI"}' };
      expect(await (await connect()).onDefineDomain(request)).toBe(
        '<domain/>, and of {"kind":"VMI"} ä',
      );
    });

    test.each(["v1alpha2", "v1alpha3"] as const)("calls PreCloudInitIso in %s", async (version) => {
      await bench.start("hook-sidecar-0", {
        info: INFO,
        preCloudInitIso: ({ data, noCloudSource }) => ({
          data: noCloudSource,
          noCloudSource: data,
        }),
      });
      const request = { version, data: '{"UserData":"ä"}', noCloudSource: "", vmi: "{}" };
      expect(await (await connect()).preCloudInitIso(request)).toEqual({
        data: "",
        noCloudSource: '{"UserData":"ä"}',
      });
    });

    test("notifies a hook of the guest's end", async () => {
      let ends = 0;
      const shutdown = (): void => {
        ends += 1;
      };
      await bench.start("hook-sidecar-0", { info: INFO, shutdown });
      await (await connect()).shutdown();
      expect(ends).toBe(1);
    });

    test("reports a hook's own error with its text", async () => {
      const onDefineDomain = (): never => {
        throw new Error("no such board");
      };
      await bench.start("hook-sidecar-0", { info: INFO, onDefineDomain });
      const asking = (await connect()).onDefineDomain({
        version: "v1alpha2",
        domainXml: "<domain/>",
        vmi: "{}",
      });
      await expect(asking).rejects.toMatchObject({
        code: "HOOK_FAILED",
        details: {
          hook: "hook-sidecar-0",
          call: "OnDefineDomain",
          reason: "UNKNOWN: no such board",
        },
      });
    });

    test("a hook that never responds times out", async () => {
      await bench.start("hook-sidecar-0", "silent");
      await expect((await connect()).info()).rejects.toMatchObject({
        code: "HOOK_TIMED_OUT",
        details: { hook: "hook-sidecar-0", call: "Info" },
      });
    });

    test("a missing hook is unreachable", async () => {
      const connecting = bench.hooks.connect(POD, "hook-sidecar-0");
      await expect(connecting).rejects.toMatchObject({ code: "HOOK_UNREACHABLE" });
    });

    test("a hook that has ended is no longer reachable", async () => {
      await bench.start("hook-sidecar-0", { info: INFO });
      const reached = await connect();
      await reached.info();
      await bench.end("hook-sidecar-0");
      await expect(reached.info()).rejects.toMatchObject({ code: "HOOK_UNREACHABLE" });
    });
  });
}
