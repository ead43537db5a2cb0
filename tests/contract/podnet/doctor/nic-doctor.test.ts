// SPDX-License-Identifier: Apache-2.0
// The doctor names the hop at which frames die, and no hop when nothing is wrong. Most planted faults are in nic-doctor.long.test.ts.
import { describeNicDoctorContract } from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { DoctorScene, inScene } from "./doctor-scene.ts";
import { FEW_FAULTS, testPlantedFaults } from "./planted-faults.ts";

describeNicDoctorContract("netlink", async () => {
  const scene = new DoctorScene(99);
  await scene.wire();
  return {
    doctor: scene.doctor,
    nic: scene.nic(),
    removeNic: () => {
      scene.removeNic();
      return Promise.resolve();
    },
    close: () => scene.close(),
  };
});

describe.concurrent("the doctor on the kernel", () => {
  test("finds no hop dead where a switch takes frames of the uplink to the gateway's VLAN", async () => {
    const { hops, firstDead } = await inScene(92, async (scene) => {
      await scene.wire();
      await scene.putSwitch({ uplink: 10, gateway: 10 });
      // A switch in user space gets frames whole only from a link that finishes them.
      run("ip", "netns", "exec", scene.host, "ethtool", "-K", "up1", "tx", "off");
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    expect(hops.find(({ hop }) => hop === "gateway")).toMatchObject({ state: "ok" });
  });

  test.each(["bridge", "masquerade"] as const)(
    "finds no hop dead where nothing is wrong: %s",
    async (binding) => {
      const { hops, firstDead } = await inScene(binding === "bridge" ? 90 : 91, async (scene) => {
        await scene.wire(binding);
        return scene.examine();
      });
      expect(hops.filter(({ state }) => state === "dead")).toEqual([]);
      expect(firstDead).toBeUndefined();
      expect(hops.find(({ hop }) => hop === "guest")).toMatchObject({ state: "ok" });
      expect(hops.find(({ hop }) => hop === "gateway")).toMatchObject({ state: "ok" });
    },
  );

  testPlantedFaults(FEW_FAULTS);
});
