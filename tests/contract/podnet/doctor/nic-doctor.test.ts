// SPDX-License-Identifier: Apache-2.0
// Does the doctor name the hop at which frames die, for faults that are planted one at a time?
import { describeNicDoctorContract } from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { DoctorScene } from "./doctor-scene.ts";
import { PLANTED } from "./planted-faults.ts";

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

/** Scenes wait for answers that do not come: several do so at once. */
async function inScene<T>(number: number, work: (scene: DoctorScene) => Promise<T>): Promise<T> {
  const scene = new DoctorScene(number);
  try {
    return await work(scene);
  } finally {
    await scene.close();
  }
}

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

  test.each(PLANTED.map((fault, number) => ({ ...fault, number })))(
    "names $hop: $name",
    async ({ hop, reason, plant, facts, binding, number }) => {
      const report = await inScene(number, async (scene) => {
        await scene.wire(binding);
        await plant(scene);
        return scene.examine(facts);
      });
      const first = report.hops.find(({ state }) => state === "dead");
      if (first?.hop !== hop)
        console.log(
          JSON.stringify(
            report.hops.map((h) => `${h.hop} ${h.state} ${h.reason ?? ""} ${h.why}`),
            undefined,
            1,
          ),
        );
      expect({ hop: first?.hop, reason: first?.reason }).toEqual({ hop, reason });
    },
  );
});
