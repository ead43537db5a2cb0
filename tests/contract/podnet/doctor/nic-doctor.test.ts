// SPDX-License-Identifier: Apache-2.0
// The doctor names the hop at which frames are dropped, and no hop without a fault. Most planted faults are in
// nic-doctor.long.test.ts.
import { describeNicDoctorContract } from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { DoctorScene, GATEWAY, inScene } from "./doctor-scene.ts";
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
  test("finds no dead hop where a switch moves uplink frames to the gateway's VLAN", async () => {
    const { hops, firstDead } = await inScene(92, async (scene) => {
      await scene.wire();
      await scene.putSwitch({ uplink: 10, gateway: 10 });
      // A user-space switch receives complete checksums only from a link without offload.
      run("ip", "netns", "exec", scene.host, "ethtool", "-K", "up1", "tx", "off");
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    expect(hops.find(({ hop }) => hop === "gateway")).toMatchObject({ state: "ok" });
  });

  test.each(["bridge", "masquerade"] as const)(
    "finds no dead hop without a fault: %s",
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

  test.each(["bridge", "masquerade"] as const)(
    "finds no dead hop where the node is the gateway and translates: %s",
    async (binding) => {
      const { hops } = await inScene(binding === "bridge" ? 97 : 98, async (scene) => {
        await scene.wire(binding);
        scene.routeByNode();
        return scene.examine();
      });
      expect(hops.filter(({ state }) => state === "dead")).toEqual([]);
      expect(hops.find(({ hop }) => hop === "gateway")).toMatchObject({ state: "ok" });
    },
  );

  test("a guest that refuses pings but accepts connections is healthy", async () => {
    const { hops } = await inScene(89, async (scene) => {
      await scene.wire();
      const rule = "add rule ip planted c icmp type echo-request drop";
      const rules = `add table ip planted; add chain ip planted c { type filter hook input priority 0 ; }; ${rule}`;
      run("ip", "netns", "exec", scene.guest, "nft", rules);
      return scene.examine();
    });
    expect(hops[0]).toMatchObject({ hop: "guest", state: "ok" });
  });

  test("a neighbor that does not answer leaves the gateway unknown", async () => {
    const { hops, firstDead } = await inScene(93, async (scene) => {
      await scene.wire();
      scene.targets = { neighbor: "10.9.0.77" };
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    expect(hops.find(({ hop }) => hop === "gateway")).toMatchObject({ state: "unknown" });
  });

  test("probes the gateway of the pod NIC before a neighbor", async () => {
    const { hops, firstDead } = await inScene(94, async (scene) => {
      await scene.wire("masquerade");
      run("ip", "-n", scene.pod, "route", "add", "default", "via", GATEWAY, "dev", "pod1");
      scene.targets = { neighbor: "10.9.0.77" };
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    const gateway = hops.find(({ hop }) => hop === "gateway");
    expect(gateway).toMatchObject({ state: "ok", name: GATEWAY });
  });

  test.each([
    { name: "is probed if it answers", number: 86, address: GATEWAY, want: "ok", at: GATEWAY },
    {
      name: "is unknown if it does not answer",
      number: 85,
      address: "10.9.0.77",
      want: "unknown",
      at: "10.9.0.77",
    },
    {
      name: "gives way to another guest if it does not answer",
      number: 84,
      address: "10.9.0.77",
      neighbor: GATEWAY,
      want: "ok",
      at: GATEWAY,
    },
  ])("a gateway that CNI returned without a route $name", async (row) => {
    const { hops, firstDead } = await inScene(row.number, async (scene) => {
      await scene.wire();
      const gateway = { address: row.address, isRouted: false };
      scene.targets =
        row.neighbor === undefined ? { gateway } : { gateway, neighbor: row.neighbor };
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    const gateway = hops.find(({ hop }) => hop === "gateway");
    expect(gateway).toMatchObject({ state: row.want, name: row.at });
  });

  test("a gateway that answers ARP and drops IP is unknown", async () => {
    const { hops } = await inScene(96, async (scene) => {
      await scene.wire();
      const rules =
        "add table ip planted; add chain ip planted c { type filter hook input priority 0 ; }; add rule ip planted c drop";
      run("ip", "netns", "exec", scene.lan, "nft", rules);
      return scene.examine();
    });
    expect(hops.find(({ hop }) => hop === "gateway")).toMatchObject({ state: "unknown" });
  });

  test("a guest with a static address and no agent is unknown, not dead", async () => {
    const { hops, firstDead } = await inScene(95, async (scene) => {
      await scene.wire();
      run("ip", "-n", scene.guest, "addr", "flush", "dev", "eth0");
      run("ip", "-n", scene.guest, "addr", "add", "10.9.0.66/24", "dev", "eth0");
      scene.hasAgent = false;
      return scene.examine();
    });
    expect(firstDead).toBeUndefined();
    expect(hops[0]).toMatchObject({ hop: "guest", state: "unknown" });
  });

  testPlantedFaults(FEW_FAULTS);
});
