// SPDX-License-Identifier: Apache-2.0
// Network swaps of a running guest's NIC.
import type { IfaceStatus, VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { NETNS, type Bench } from "../../testing/bench.ts";
import { attachment, devicesOf, linkNamesOf, running } from "../../testing/scene.ts";

// printf one/default/red | sha256sum
const HASH = "ed42fef81fd";
const NEW_NIC = `pod${HASH}`;
const NEW_BRIDGE = `k6t-${HASH}`;
const OLD = attachment("one");
const NEW = { ...OLD, networkName: "default/red", podInterfaceName: NEW_NIC };
const { tapName, bridgeName } = linkNamesOf("one");

function onRed(vmi: VirtualMachineInstance): VirtualMachineInstance {
  return {
    ...vmi,
    spec: { ...vmi.spec, networks: [{ name: "one", multus: { networkName: "red" } }] },
  };
}

/** The user has requested the swap, and virt-controller reports the pod. */
async function ask(bench: Bench, ...attachments: readonly (typeof OLD)[]): Promise<void> {
  await bench.edit((vmi) => ({
    ...onRed(vmi),
    status: { ...vmi.status, attachments: [...attachments] },
  }));
}

/** CNI has created the other NIC. */
function putNew(bench: Bench, mtu = 1500): void {
  const link = { name: NEW_NIC, kind: "veth", mac: "02:00:00:00:00:09", mtu, up: true };
  bench.podNetwork.putLink(NETNS, link);
}

async function status(bench: Bench): Promise<IfaceStatus | undefined> {
  return (await bench.vmi()).status?.interfaces?.find(({ name }) => name === "one");
}

function bridgeOfTap(bench: Bench): string | undefined {
  return bench.podNetwork.findLink(NETNS, tapName)?.master;
}

describe("a NIC whose network changes", () => {
  test("is swapped without replugging its device, and its old bridge is removed", async () => {
    const bench = await running(["one"]);
    const before = await status(bench);
    await ask(bench, OLD, NEW);
    putNew(bench);
    await bench.resume();
    expect(bridgeOfTap(bench)).toBe(NEW_BRIDGE);
    expect(bench.podNetwork.findLink(NETNS, bridgeName)).toBeUndefined();
    expect(devicesOf(bench)).toEqual(["ua-one"]);
    const after = await status(bench);
    expect(after).toMatchObject({
      podInterfaceName: NEW_NIC,
      linkState: "up",
      mac: before?.mac,
      pciAddress: before?.pciAddress,
      hotplug: { type: "Plug", phase: "Ready" },
    });
    expect(after).not.toHaveProperty("otherPodInterfaceNames");
    expect(bench.events.filter((event) => event.startsWith("InterfaceMoved"))).toHaveLength(1);
    const calls = bench.daemon.calls.filter((call) => call.startsWith("updateDevice"));
    expect(calls).toHaveLength(2);
  });

  test("has its addresses queried soon, like a new NIC", async () => {
    const bench = await running(["one"]);
    const say = (address: string): void => {
      const nic = { name: "eth0", mac: "02:00:00:00:00:01", addresses: [address] };
      bench.daemon.setAgent("default_vm1", [nic]);
    };
    const goOn = async (ms: number): Promise<void> => {
      bench.nowMs += ms;
      await bench.resume();
    };
    say("10.8.0.5");
    await bench.run();
    for (const ms of [1_000, 3_000, 15_000, 60_000]) await goOn(ms);
    expect((await status(bench))?.ipAddress).toBe("10.8.0.5");
    await ask(bench, OLD, NEW);
    putNew(bench);
    await bench.resume();
    say("10.9.0.5");
    await goOn(600);
    expect((await status(bench))?.ipAddress).toBe("10.9.0.5");
  });

  test("stays on its network while the pod has no other NIC", async () => {
    const bench = await running(["one"]);
    await ask(bench, OLD, { ...NEW, state: "Failed", reason: "CniFailed", message: "no address" });
    await bench.resume();
    expect(bridgeOfTap(bench)).toBe(bridgeName);
    expect(await status(bench)).toMatchObject({
      podInterfaceName: OLD.podInterfaceName,
      hotplug: {
        type: "Swap",
        phase: "PodSwapping",
        reason: "CniFailed",
        message: "no address; the NIC stays on network default/blue",
      },
    });
    expect(bench.daemon.calls.some((call) => call.startsWith("updateDevice"))).toBe(false);
  });

  test("retains its link state when the other network cannot be wired", async () => {
    const bench = await running(["one"]);
    await ask(bench, OLD, NEW);
    const link = { name: NEW_NIC, kind: "ipvlan", mac: "02:00:00:00:00:09", mtu: 1500, up: true };
    bench.podNetwork.putLink(NETNS, link);
    await bench.resume();
    expect(bridgeOfTap(bench)).toBe(bridgeName);
    expect((await status(bench))?.hotplug).toMatchObject({
      phase: "Switching",
      reason: "NetworkCannotCarryVm",
    });
    expect(bench.daemon.calls.some((call) => call.startsWith("updateDevice"))).toBe(false);
  });

  test("is restored with its link up when its tap cannot be moved", async () => {
    const bench = await running(["one"]);
    await ask(bench, OLD, NEW);
    putNew(bench);
    bench.podNetwork.failNext("wireTap", new AppError("PODNET_FAILED", { message: "no" }));
    await bench.resume();
    expect(bridgeOfTap(bench)).toBe(bridgeName);
    expect(await status(bench)).toMatchObject({
      linkState: "up",
      podInterfaceName: OLD.podInterfaceName,
      otherPodInterfaceNames: [NEW_NIC],
      hotplug: { type: "Swap", phase: "Switching", reason: "SwitchFailed", attempts: 1 },
    });
    bench.nowMs += 60_000;
    await bench.resume();
    expect(bridgeOfTap(bench)).toBe(NEW_BRIDGE);
  });

  test("retains the MTU that its guest uses, and reports it", async () => {
    const bench = await running(["one"]);
    await ask(bench, OLD, NEW);
    putNew(bench, 1400);
    await bench.resume();
    expect(bench.podNetwork.findLink(NETNS, tapName)?.mtu).toBe(1400);
    expect((await status(bench))?.hotplug).toMatchObject({
      phase: "Ready",
      reason: "MtuDiffers",
      message: expect.stringMatching(/1500.* 1400/) as string,
    });
    await bench.edit((vmi) => {
      const interfaces = vmi.spec.domain.devices?.interfaces ?? [];
      const down = interfaces.map((iface) => ({ ...iface, state: "down" }));
      const domain = { ...vmi.spec.domain, devices: { interfaces: down } };
      return { ...vmi, spec: { ...vmi.spec, domain } };
    });
    await bench.resume();
    expect(await status(bench)).toMatchObject({ linkState: "down" });
  });

  test("stays untouched when the swap is canceled before the pod has the other NIC", async () => {
    const bench = await running(["one"]);
    const before = (await bench.vmi()).spec;
    await ask(bench, OLD);
    await bench.resume();
    expect((await status(bench))?.hotplug?.phase).toBe("PodSwapping");
    await bench.edit((vmi) => ({ ...vmi, spec: before }));
    await bench.resume();
    expect((await status(bench))?.hotplug).toMatchObject({ type: "Plug", phase: "Ready" });
    expect(bench.events.some((event) => event.startsWith("InterfaceMoved"))).toBe(false);
  });
});
