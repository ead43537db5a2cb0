// SPDX-License-Identifier: Apache-2.0
// The doctor names the hop at which frames are dropped, for every planted fault that nic-doctor.test.ts leaves out, and the
// DHCP requests of a silent guest, whose client needs seconds to give up.
import { run } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { askIpv4 } from "../dhcp-guest.ts";
import { GATEWAY, inScene } from "./doctor-scene.ts";
import { FORWARD, nft } from "./plant.ts";
import { OTHER_FAULTS, testPlantedFaults } from "./planted-faults.ts";

describe.concurrent("the doctor on the kernel", () => {
  test.each([
    { binding: "bridge", number: 88 },
    { binding: "masquerade", number: 87 },
  ] as const)(
    "reports the DHCP requests of a silent guest: $binding",
    async ({ binding, number }) => {
      const [before, after] = await inScene(number, async (scene) => {
        await scene.wire(binding);
        if (binding === "bridge") await scene.serveGuest();
        run("ip", "-n", scene.guest, "addr", "flush", "dev", "eth0");
        scene.hasAgent = false;
        const first = await scene.examine({ serves: true });
        expect(askIpv4(scene.guest)).toBeUndefined();
        return [first, await scene.examine({ serves: true })];
      });
      expect(before.hops[0]).toMatchObject({ hop: "guest", state: "unknown" });
      expect(before.hops[0]?.why).toContain("the guest has sent no DHCP request");
      expect(after.hops[0]?.why).toMatch(/the guest has sent \d+ DHCP requests/);
    },
  );

  test("a firewall of the pod that refuses new connections leaves the translation unknown", async () => {
    const { hops, firstDead } = await inScene(83, async (scene) => {
      await scene.wire("masquerade");
      await nft("pod", "ip", [FORWARD, 'oifname "k6t-1" ct state new drop'])(scene);
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    expect(hops.find(({ hop }) => hop === "translation")).toMatchObject({ state: "unknown" });
  });

  test.each([
    {
      number: 81,
      policy: { ingress: [] },
      want: /; network policies dropped \d+ frames to the guest \(/,
    },
    {
      number: 82,
      policy: { egress: [] },
      want: /; network policies dropped \d+ frames from the guest \(/,
    },
  ])("reports what network policies drop: $want", async ({ number, policy, want }) => {
    const { hops, firstDead } = await inScene(number, async (scene) => {
      await scene.wire("bridge");
      await scene.applyPolicy(policy);
      scene.say("guest", "busybox", "ping", "-q", GATEWAY);
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    expect(hops.find(({ hop }) => hop === "tap")?.why).toMatch(want);
  });

  testPlantedFaults(OTHER_FAULTS);
});
