// SPDX-License-Identifier: Apache-2.0
// Contract of NicDoctor.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ExaminedNic, NicDoctor } from "@patchbay/core/interfaces";

/** A guest that answers, on a NIC whose path is intact up to a bridge of the node. */
export interface NicDoctorScene {
  readonly doctor: NicDoctor;
  readonly nic: ExaminedNic;
  /** Deletes the pod NIC. */
  removeNic(): Promise<void>;
  close(): Promise<void>;
}

export function describeNicDoctorContract(kind: string, make: () => Promise<NicDoctorScene>): void {
  describe(`NIC doctor: ${kind}`, () => {
    let scene: NicDoctorScene;
    beforeAll(async () => {
      scene = await make();
    });
    afterAll(() => scene.close());

    test("finds each link of a path, no faults, and a guest that responds", async () => {
      const { doctor, nic } = scene;
      const { links, wiringFaults, traces, isBridged } = await doctor.examine(nic);
      const { tap, podNic, nodePeer, nodeBridge } = links;
      const { tapName, podInterfaceName, mac } = nic.wiring;
      expect([tap?.name, podNic?.name]).toEqual([tapName, podInterfaceName]);
      expect(nodePeer?.master).toBe(nodeBridge?.name);
      expect(nodeBridge).toBeDefined();
      expect(wiringFaults).toEqual([]);
      expect(isBridged).toBe(true);
      expect(traces).toContainEqual(
        expect.objectContaining({
          probe: "inward",
          probeSeenAt: expect.arrayContaining(["tap"]) as unknown,
          replySeenAt: expect.arrayContaining(["tap", "podNic"]) as unknown,
          repliedFrom: [mac],
        }),
      );
    });

    test("reports a missing pod NIC, and no path behind it", async () => {
      await scene.removeNic();
      const { links } = await scene.doctor.examine(scene.nic);
      expect(links.podNic).toBeUndefined();
      expect(links).toMatchObject({ onNode: "unseen", uplinks: [] });
      expect(links.tap?.name).toBe(scene.nic.wiring.tapName);
    });
  });
}
