// SPDX-License-Identifier: Apache-2.0
// Contract of PodNetwork, for the fake and the kernel.

import type { NicPolicy } from "@patchbay/core/policies";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { BridgeWiring, MasqueradeWiring } from "@patchbay/core/nics";
import type { NetnsHandle, Link, PodNetwork } from "@patchbay/core/interfaces";

export interface PodNetworkBench {
  readonly network: PodNetwork;
  readonly netns: NetnsHandle;
  /** Adds a pod NIC as CNI would. Kind `tun` makes a tap that is down. */
  addNic(nic: {
    readonly name: string;
    readonly kind: string;
    readonly mac: string;
  }): Promise<void>;
  removeNic(name: string): Promise<void>;
  close(): Promise<void>;
}

const MAC = "02:00:00:00:5e:01";
const TAP_MAC = "02:00:00:00:5e:02";
const LIMITER = "limc0ffee";
const WIRING: BridgeWiring = {
  kind: "bridge",
  podInterfaceName: "podc0ffee",
  bridgeName: "k6t-c0ffee",
  tapName: "tapc0ffee",
  mac: MAC,
  mtu: 1500,
  owner: 107,
  queues: 1,
};

/** Defines the tests; `kind` is the kind of NIC that carries the guest. */
export function describePodNetworkContract(
  name: string,
  kind: string,
  make: () => Promise<PodNetworkBench>,
): void {
  describe(`PodNetwork: ${name}, ${kind}`, () => {
    let bench: PodNetworkBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.close();
    });
    const find = async (link: string): Promise<Link | undefined> =>
      (await bench.network.listLinks(bench.netns)).find((candidate) => candidate.name === link);
    const addNic = (): Promise<void> =>
      bench.addNic({ name: WIRING.podInterfaceName, kind, mac: MAC });

    test("lists links, sorted, with kind and MAC", async () => {
      await addNic();
      const links = await bench.network.listLinks(bench.netns);
      expect(links.map((link) => link.name)).toEqual(["lo", WIRING.podInterfaceName]);
      expect(links[1]).toMatchObject({ kind, mac: MAC, mtu: 1500 });
    });

    test("wires bridge and tap around the NIC, which retains its name and MAC", async () => {
      await addNic();
      await bench.network.wireTap(bench.netns, WIRING);
      const master = WIRING.bridgeName;
      expect(await find(WIRING.podInterfaceName)).toMatchObject({
        kind,
        mac: MAC,
        up: true,
        master,
      });
      expect(await find(WIRING.tapName)).toMatchObject({
        kind: "tun",
        mtu: 1500,
        up: true,
        master,
      });
      const bridge = await find(master);
      expect(bridge).toMatchObject({ kind: "bridge", up: true });
      expect(bridge?.mac).not.toBe(MAC);
    });

    test("detects whether it is wired", async () => {
      const isWired = async (): Promise<boolean> =>
        (await bench.network.observe(bench.netns)).isWired(WIRING);
      expect(await isWired()).toBe(false);
      await addNic();
      expect(await isWired()).toBe(false);
      await bench.network.wireTap(bench.netns, WIRING);
      expect(await isWired()).toBe(true);
      const view = await bench.network.observe(bench.netns);
      expect(view.links).toEqual(await bench.network.listLinks(bench.netns));
      expect(view.isWired({ ...WIRING, mac: "02:00:00:00:5e:02" })).toBe(false);
      expect(view.isWired({ ...WIRING, mtu: 1400 })).toBe(false);
      await bench.network.unwireTap(bench.netns, WIRING);
      expect(await isWired()).toBe(false);
    });

    test("detects whether the guest is filtered, and removes the filter", async () => {
      await addNic();
      const guard = { macs: [MAC], allowsServers: false, addresses: ["10.9.0.1", "fd09::1"] };
      const isWired = async (wiring: BridgeWiring): Promise<boolean> =>
        (await bench.network.observe(bench.netns)).isWired(wiring);
      await bench.network.wireTap(bench.netns, { ...WIRING, guard });
      expect(await isWired({ ...WIRING, guard })).toBe(true);
      expect(await isWired({ ...WIRING, guard: { ...guard, allowsServers: true } })).toBe(false);
      expect(await isWired(WIRING)).toBe(false);
      await bench.network.wireTap(bench.netns, WIRING);
      expect(await isWired(WIRING)).toBe(true);
      expect(await isWired({ ...WIRING, guard })).toBe(false);
    });

    test("detects whether policies apply to the guest, changes and removes them", async () => {
      await addNic();
      const policies: readonly NicPolicy[] = [
        { ingress: [] },
        { ingress: [{ peers: ["10.9.0.1-10.9.0.9", "fd09::1"] }], egress: [] },
        { ingress: [{ peers: ["10.9.0.1-10.9.0.8", "fd09::1"] }], egress: [] },
        { egress: [{ ports: [{ protocol: "tcp", first: 80, last: 89 }] }], exempt: ["10.9.0.254"] },
      ];
      const wirings = [WIRING, ...policies.map((policy) => ({ ...WIRING, policy }))];
      const findApplied = async (): Promise<readonly BridgeWiring[]> =>
        wirings.filter((await bench.network.observe(bench.netns)).hasPolicy);
      const [, first = WIRING] = wirings;
      await bench.network.wireTap(bench.netns, first);
      expect(await findApplied()).toEqual([first]);
      for (const wiring of [...wirings, first]) {
        await bench.network.applyPolicy(bench.netns, wiring);
        expect(await findApplied()).toEqual([wiring]);
        const view = await bench.network.observe(bench.netns);
        expect(view.isWired(WIRING)).toBe(true);
      }
      await bench.network.unwireTap(bench.netns, first);
      expect(await findApplied()).toEqual([WIRING]);
    });

    test("detects limits of the guest's traffic, changes and removes them", async () => {
      await addNic();
      const average = { bytesPerSecond: 1_000_000, burstBytes: 50_000 };
      const peak = { bytesPerSecond: 2_000_000, burstBytes: 2000 };
      const slow = { average, queueBytes: 150_000 };
      const limited = { ...WIRING, limits: { inbound: slow, outbound: { ...slow, peak } } };
      const others: readonly BridgeWiring[] = [
        WIRING,
        { ...WIRING, limits: { inbound: slow } },
        { ...WIRING, limits: { outbound: slow } },
        { ...WIRING, limits: { inbound: { ...slow, queueBytes: 160_000 }, outbound: slow } },
      ];
      for (const wiring of [limited, ...others]) {
        await bench.network.wireTap(bench.netns, wiring);
        const view = await bench.network.observe(bench.netns);
        const matching = [limited, ...others].filter(view.isWired);
        expect(matching).toEqual([wiring]);
        const isLimited = wiring.limits?.outbound !== undefined;
        expect((await find(LIMITER))?.kind).toBe(isLimited ? "ifb" : undefined);
      }
      await bench.network.wireTap(bench.netns, limited);
      await bench.network.unwireTap(bench.netns, limited);
      expect(await find(LIMITER)).toBeUndefined();
      expect((await bench.network.observe(bench.netns)).isWired(WIRING)).toBe(false);
    });

    test("wires a tap that awaits its guest with another MAC, and sets the guest's MAC on arrival", async () => {
      await addNic();
      const awaited: BridgeWiring = { ...WIRING, incomingPodUid: "pod-uid" };
      const isWired = async (): Promise<readonly boolean[]> => {
        const view = await bench.network.observe(bench.netns);
        return [view.isWired(awaited), view.isWired(WIRING)];
      };
      await bench.network.wireTap(bench.netns, awaited);
      expect(await isWired()).toEqual([true, false]);
      const nic = await find(WIRING.podInterfaceName);
      expect(nic).toMatchObject({ up: true, master: WIRING.bridgeName });
      expect(nic?.mac).not.toBe(MAC);
      await bench.network.wireTap(bench.netns, WIRING);
      expect(await isWired()).toEqual([false, true]);
      expect(await find(WIRING.podInterfaceName)).toMatchObject({ mac: MAC, up: true });
    });

    test("announces a guest through a NIC that exists and is up", async () => {
      const { podInterfaceName } = WIRING;
      const nic = { podInterfaceName, mac: MAC, addresses: ["10.9.0.1/24", "fd09::1"] };
      const announce = (): Promise<void> => bench.network.announce(bench.netns, nic);
      await expect(announce()).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
      await addNic();
      await bench.network.wireTap(bench.netns, WIRING);
      await announce();
      await announce();
    });

    test("masquerades a guest behind the NIC, which stays out of the bridge", async () => {
      await addNic();
      const wiring: MasqueradeWiring = {
        ...WIRING,
        kind: "masquerade",
        mac: "02:00:00:00:5e:02",
        ipv4: { gateway: "10.0.2.1/24", guest: "10.0.2.2" },
        ports: [{ protocol: "tcp", first: 80, last: 80 }],
      };
      const isWired = async (observed: MasqueradeWiring): Promise<boolean> =>
        (await bench.network.observe(bench.netns)).isWired(observed);
      await bench.network.wireTap(bench.netns, wiring);
      expect(await isWired(wiring)).toBe(true);
      expect(await isWired({ ...wiring, ports: [] })).toBe(false);
      const nic = await find(WIRING.podInterfaceName);
      expect(nic).toMatchObject({ mac: MAC });
      expect(nic?.master).toBeUndefined();
      await bench.network.unwireTap(bench.netns, wiring);
      expect(await isWired(wiring)).toBe(false);
      expect(await find(WIRING.bridgeName)).toBeUndefined();
    });

    test("reports no carrier while no process has the tap open", async () => {
      await addNic();
      await bench.network.wireTap(bench.netns, WIRING);
      expect(await find(WIRING.tapName)).toMatchObject({ carrier: false });
    });

    test("changes nothing when it is already wired", async () => {
      await addNic();
      await bench.network.wireTap(bench.netns, WIRING);
      const before = await bench.network.listLinks(bench.netns);
      await bench.network.wireTap(bench.netns, WIRING);
      expect(await bench.network.listLinks(bench.netns)).toEqual(before);
    });

    test("rejects a missing NIC", async () => {
      await expect(bench.network.wireTap(bench.netns, WIRING)).rejects.toMatchObject({
        code: "PODNET_LINK_MISSING",
      });
    });

    test("removes tap and bridge and leaves the NIC to CNI, also when repeated", async () => {
      await addNic();
      await bench.network.wireTap(bench.netns, WIRING);
      await bench.network.unwireTap(bench.netns, WIRING);
      await bench.network.unwireTap(bench.netns, WIRING);
      const links = await bench.network.listLinks(bench.netns);
      expect(links.map((link) => link.name)).toEqual(["lo", WIRING.podInterfaceName]);
      expect(links[1]?.master).toBeUndefined();
    });

    test("removes tap and bridge when the NIC was removed first", async () => {
      await addNic();
      await bench.network.wireTap(bench.netns, WIRING);
      await bench.removeNic(WIRING.podInterfaceName);
      await bench.network.unwireTap(bench.netns, WIRING);
      const links = await bench.network.listLinks(bench.netns);
      expect(links.map((link) => link.name)).toEqual(["lo"]);
    });

    describe("with a tap that the network's plugin created", () => {
      const { podInterfaceName, tapName, mac, mtu } = WIRING;
      const FOUND = { kind: "tap", podInterfaceName, tapName, mac, mtu } as const;
      const addTap = (): Promise<void> =>
        bench.addNic({ name: tapName, kind: "tun", mac: TAP_MAC });
      const isWired = async (): Promise<boolean> =>
        (await bench.network.observe(bench.netns)).isWired(FOUND);

      test("configures it, and leaves it to the plugin", async () => {
        await addTap();
        expect(await isWired()).toBe(false);
        await bench.network.wireTap(bench.netns, FOUND);
        expect(await isWired()).toBe(true);
        const made = await bench.network.listLinks(bench.netns);
        expect(made.map((link) => link.name)).toEqual(["lo", tapName]);
        expect(made[1]).toMatchObject({ kind: "tun", mac: TAP_MAC, up: true });
        await bench.network.wireTap(bench.netns, FOUND);
        await bench.network.unwireTap(bench.netns, FOUND);
        expect(await bench.network.listLinks(bench.netns)).toEqual(made);
      });

      test("rejects a missing link and a link that is not a tap", async () => {
        const wired = (): Promise<void> => bench.network.wireTap(bench.netns, FOUND);
        await expect(wired()).rejects.toMatchObject({ code: "PODNET_LINK_MISSING" });
        await bench.addNic({ name: tapName, kind: "veth", mac: MAC });
        await expect(wired()).rejects.toMatchObject({ code: "PODNET_NETWORK_CANNOT_CARRY_VM" });
        expect(await isWired()).toBe(false);
      });
    });

    describe("another NIC in the pod", () => {
      const OTHER: BridgeWiring = {
        ...WIRING,
        podInterfaceName: "podfacade",
        bridgeName: "k6t-facade",
      };
      const isWired = async (wiring: BridgeWiring): Promise<boolean> =>
        (await bench.network.observe(bench.netns)).isWired(wiring);
      beforeEach(async () => {
        await addNic();
        await bench.network.wireTap(bench.netns, WIRING);
        // A veth, because two macvlans of one parent cannot both have the guest's MAC.
        const nic = { name: OTHER.podInterfaceName, kind: "veth", mac: "02:00:00:00:5e:02" };
        await bench.addNic(nic);
      });

      test("gets a bridge while the tap stays in place, also when repeated", async () => {
        await bench.network.makeBridge(bench.netns, OTHER);
        await bench.network.makeBridge(bench.netns, OTHER);
        expect(await isWired(WIRING)).toBe(true);
        expect(await isWired(OTHER)).toBe(false);
        const nic = { mac: MAC, up: true, master: OTHER.bridgeName };
        expect(await find(OTHER.podInterfaceName)).toMatchObject(nic);
      });

      test("takes the tap over, and returns it", async () => {
        const before = await find(WIRING.tapName);
        await bench.network.makeBridge(bench.netns, OTHER);
        for (const wiring of [OTHER, WIRING]) {
          await bench.network.wireTap(bench.netns, wiring);
          expect(await isWired(wiring)).toBe(true);
          expect((await find(WIRING.tapName))?.index).toBe(before?.index);
        }
        expect(await isWired(OTHER)).toBe(false);
      });

      test("stays when its bridge is removed; the tap in place stays wired", async () => {
        await bench.network.makeBridge(bench.netns, OTHER);
        await bench.network.removeBridge(bench.netns, OTHER.bridgeName);
        await bench.network.removeBridge(bench.netns, OTHER.bridgeName);
        expect(await find(OTHER.bridgeName)).toBeUndefined();
        expect((await find(OTHER.podInterfaceName))?.master).toBeUndefined();
        expect(await isWired(WIRING)).toBe(true);
      });

      test("that does not exist gets no bridge", async () => {
        const missing = { ...OTHER, podInterfaceName: "pod0" };
        await expect(bench.network.makeBridge(bench.netns, missing)).rejects.toMatchObject({
          code: "PODNET_LINK_MISSING",
        });
        expect(await find(OTHER.bridgeName)).toBeUndefined();
      });
    });

    test("restores a NIC's MAC and addresses once", async () => {
      await addNic();
      const { podInterfaceName: name } = WIRING;
      const borrowed = {
        name,
        mac: "02:00:00:00:5E:07",
        addresses: ["10.55.0.2/24", "fd00:55::2/64"],
      };
      await bench.network.restoreNic(bench.netns, borrowed);
      await bench.network.restoreNic(bench.netns, borrowed);
      const nic = await find(name);
      expect(nic).toMatchObject({ mac: "02:00:00:00:5e:07" });
      expect(nic?.addresses).toEqual(expect.arrayContaining(borrowed.addresses));
    });

    test("restores a NIC's permanent neighbors after it was wired, also when repeated", async () => {
      await addNic();
      const { podInterfaceName: name } = WIRING;
      const paths = () => bench.network.readPaths(bench.netns, name);
      expect(await paths()).toEqual({ routes: [], neighbors: [] });
      const neighbors = ["169.254.1.1", "fe80::1"].map((address) => ({ address, mac: TAP_MAC }));
      const borrowed = { name, addresses: ["10.55.0.2/24"], paths: { routes: [], neighbors } };
      await bench.network.restoreNic(bench.netns, borrowed);
      expect(await paths()).toEqual(borrowed.paths);
      await bench.network.wireTap(bench.netns, WIRING);
      await bench.network.unwireTap(bench.netns, WIRING);
      await bench.network.restoreNic(bench.netns, borrowed);
      await bench.network.restoreNic(bench.netns, borrowed);
      expect(await paths()).toEqual(borrowed.paths);
      expect(await find(name)).toMatchObject({ up: true });
      expect(await bench.network.readPaths(bench.netns, "none")).toBeUndefined();
    });

    test("restores nothing on a missing NIC", async () => {
      const borrowed = { name: "none", mac: MAC, addresses: ["10.55.0.2/24"] };
      await bench.network.restoreNic(bench.netns, borrowed);
      expect(await find("none")).toBeUndefined();
    });

    test("removes a NIC, also when repeated", async () => {
      await addNic();
      await bench.network.removeLink(bench.netns, WIRING.podInterfaceName);
      await bench.network.removeLink(bench.netns, WIRING.podInterfaceName);
      expect(await find(WIRING.podInterfaceName)).toBeUndefined();
    });

    test("restores a NIC's name and MAC, also when repeated, and removes a link with that name", async () => {
      const renamed = { name: "c0ffee-nic", originalName: WIRING.podInterfaceName, mac: MAC };
      await bench.addNic({ name: renamed.name, kind, mac: TAP_MAC });
      await bench.addNic({ name: renamed.originalName, kind: "veth", mac: "02:00:00:00:5e:04" });
      await bench.network.makeBridge(bench.netns, {
        ...WIRING,
        podInterfaceName: renamed.name,
      });
      await bench.network.restoreName(bench.netns, renamed);
      await bench.network.restoreName(bench.netns, renamed);
      expect(await find(renamed.name)).toBeUndefined();
      expect(await find(renamed.originalName)).toMatchObject({ kind, mac: MAC });
      expect((await find(renamed.originalName))?.master).toBeUndefined();
    });
  });
}
