// SPDX-License-Identifier: Apache-2.0
import { beforeEach, describe, expect, test } from "vitest";
import type { Sandbox, Sandboxes } from "@patchbay/core/interfaces";

export interface SandboxesBench {
  readonly sandboxes: Sandboxes;
  /** Creates a sandbox, replacing the pod's previous one. */
  put(sandbox: Sandbox): Promise<void> | void;
  take(podUid: string): Promise<void> | void;
}

const ONE: Sandbox = {
  id: "box-1",
  podUid: "uid-1",
  pod: { namespace: "ns1", name: "pod" },
  netnsPath: "/run/netns/box-1",
  netnsInode: "402",
};

/** Defines tests named `Sandboxes: NAME`; each creates its own bench. */
export function describeSandboxesContract(name: string, make: () => SandboxesBench): void {
  describe(`Sandboxes: ${name}`, () => {
    let bench: SandboxesBench;
    beforeEach(() => {
      bench = make();
    });

    test("a pod has no sandbox before the runtime has created one, and none after its removal", async () => {
      expect(await bench.sandboxes.find("uid-1")).toBeUndefined();
      await bench.put(ONE);
      await bench.take("uid-1");
      expect(await bench.sandboxes.find("uid-1")).toBeUndefined();
    });

    test("finds each pod's own newest sandbox", async () => {
      const again = { ...ONE, id: "box-2", netnsPath: "/run/netns/box-2", netnsInode: "403" };
      const netnsPath = "/run/netns/box-3";
      const other = { ...ONE, id: "box-3", podUid: "uid-2", netnsPath, netnsInode: "404" };
      for (const sandbox of [ONE, other, again]) await bench.put(sandbox);
      expect(await bench.sandboxes.find("uid-1")).toEqual(again);
      expect(await bench.sandboxes.find("uid-2")).toEqual(other);
    });

    test("only the pod's newest sandbox is ready, and none after its removal", async () => {
      expect(await bench.sandboxes.isReady("box-1")).toBe(false);
      await bench.put(ONE);
      expect(await bench.sandboxes.isReady("box-1")).toBe(true);
      await bench.put({ ...ONE, id: "box-2", netnsPath: "/run/netns/box-2", netnsInode: "403" });
      expect(await bench.sandboxes.isReady("box-1")).toBe(false);
      expect(await bench.sandboxes.isReady("box-2")).toBe(true);
      await bench.take("uid-1");
      expect(await bench.sandboxes.isReady("box-2")).toBe(false);
    });
  });
}
