// SPDX-License-Identifier: Apache-2.0
// Contract of NodeNics.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { NetnsHandle, NodeNic, NodeNics } from "@patchbay/core/interfaces";

export const BORROWED_MAC = "02:00:00:00:9c:01";
/** Settings of the borrowed NIC, with addresses and routes sorted and as text. */
export const BORROWED_ADDRESSES = {
  mac: BORROWED_MAC,
  mtu: 1400,
  up: true,
  addresses: ["10.9.1.2/24", "10.9.1.3/24", "fd09:1::2/64"],
  routes: [
    "192.0.2.0/24 dev card0 metric 7",
    "default via 10.9.1.1 dev card0",
    "default via fd09:1::1 dev card0",
  ],
};
/** PCI address and sysfs path of the NIC's device. */
export const [BORROWED_PCI, BORROWED_PATH] = [
  "0000:00:03.0",
  "/sys/devices/pci0000:00/0000:00:03.0",
];

/** A pod, and a host with two NICs that have no permanent MAC: `card0` with {@link BORROWED_ADDRESSES}, and `card1` with another MAC. */
export interface NodeNicsScene {
  readonly nics: NodeNics;
  readonly host: NetnsHandle;
  readonly pod: NetnsHandle;
  /** Moves `card0` to the pod as `net1`, with another MAC and MTU and its old name as alias, like plugin host-device. */
  lend(): void;
  /** Moves `net1` to the host under that name, as the kernel does with hardware of a deleted namespace. */
  restore(name: string): void;
  /** Returns the settings of the host's NIC with that name; undefined if it does not exist. */
  readSettings(name: string): typeof BORROWED_ADDRESSES | undefined;
  listPodNics(): readonly string[];
  close(): Promise<void>;
}

/** Defines the tests, each with a new scene. */
export function describeNodeNicsContract(kind: string, make: () => Promise<NodeNicsScene>): void {
  describe(`NICs of the node ${kind}`, () => {
    let scene: NodeNicsScene;
    beforeEach(async () => {
      scene = await make();
    });
    afterEach(() => scene.close());

    async function note(): Promise<NodeNic> {
      const nic = await scene.nics.find(scene.host, { by: "name", name: "card0" });
      if (nic === undefined) throw new Error("there is no card0");
      return nic;
    }
    const restore = (nic: NodeNic): ReturnType<NodeNics["restore"]> =>
      scene.nics.restore(scene.host, nic);

    test.each([
      { by: "name", name: "card0" },
      { by: "mac", mac: BORROWED_MAC.toUpperCase() },
      { by: "kernelPath", path: BORROWED_PATH },
      { by: "device", id: BORROWED_PCI },
    ] as const)("are found by $by", async (by) => {
      const found = await scene.nics.find(scene.host, by);
      expect(found).toMatchObject({ name: "card0", mac: BORROWED_MAC, mtu: 1400, up: true });
      expect(found).toEqual(await note());
    });

    test.each([
      { by: "name", name: "card7" },
      { by: "mac", mac: "02:00:00:00:9c:77" },
      { by: "kernelPath", path: "/sys/devices/none" },
      { by: "device", id: "0000:00:07.0" },
    ] as const)("that do not exist are not found by $by", async (by) => {
      expect(await scene.nics.find(scene.host, by)).toBeUndefined();
    });

    test.each(["card0", "net1", "dev7"])(
      "are restored unchanged after they return as %s",
      async (name) => {
        const nic = await note();
        scene.lend();
        scene.restore(name);
        expect(await restore(nic)).toEqual({ kind: "there", rejectedSettings: [] });
        expect(scene.readSettings("card0")).toEqual(BORROWED_ADDRESSES);
        if (name !== "card0") expect(scene.readSettings(name)).toBeUndefined();
        // A second call changes nothing.
        expect(await restore(nic)).toEqual({ kind: "there", rejectedSettings: [] });
        expect(scene.readSettings("card0")).toEqual(BORROWED_ADDRESSES);
        expect((await note()).alias).toBe("");
      },
    );

    test("that were never lent stay unchanged", async () => {
      expect(await restore(await note())).toEqual({ kind: "there", rejectedSettings: [] });
      expect(scene.readSettings("card0")).toEqual(BORROWED_ADDRESSES);
    });

    test("are absent while the pod has them, and are not confused with other NICs", async () => {
      const nic = await note();
      scene.lend();
      const other = scene.readSettings("card1");
      expect(await restore(nic)).toEqual({ kind: "absent" });
      expect(scene.readSettings("card1")).toEqual(other);
    });

    test("are moved out of a pod without their plugin", async () => {
      const nic = await note();
      scene.lend();
      expect(scene.listPodNics()).toEqual(["net1"]);
      await scene.nics.returnToHost(scene.pod, "net1", scene.host);
      await scene.nics.returnToHost(scene.pod, "net1", scene.host);
      expect(scene.listPodNics()).toEqual([]);
      expect(await restore(nic)).toEqual({ kind: "there", rejectedSettings: [] });
      expect(scene.readSettings("card0")).toEqual(BORROWED_ADDRESSES);
    });

    test("that were down without addresses return in that state", async () => {
      const nic = { ...(await note()), up: false, addresses: [], routes: [] };
      scene.lend();
      scene.restore("dev7");
      expect(await restore(nic)).toEqual({ kind: "there", rejectedSettings: [] });
      expect(scene.readSettings("card0")).toMatchObject({ up: false, addresses: [], routes: [] });
    });
  });
}
