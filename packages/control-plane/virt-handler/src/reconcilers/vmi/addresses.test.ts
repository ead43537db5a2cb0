// SPDX-License-Identifier: Apache-2.0
// The addresses of a pod NIC become the guest's and survive crashes.
import { AppError } from "@patchbay/base";
import { expect, test } from "vitest";
import { createBench, NETNS, type Bench } from "../../testing/bench.ts";
import {
  UNPLUG_RETRY_INTERVAL_MS,
  aScheduledVmi,
  attachment,
  putNic,
} from "../../testing/scene.ts";

const MAC = "02:00:00:00:00:01";
const { podInterfaceName } = attachment("one");
const ADDRESS = "10.9.0.5/24";

/** A node whose VM is to start with a NIC that CNI gave an address. */
function starting(): Bench {
  const bench = createBench(aScheduledVmi(["one"]));
  putNic(bench, "one");
  const nic = bench.podNetwork.findLink(NETNS, podInterfaceName);
  if (nic === undefined) throw new Error("the scene has no NIC");
  bench.podNetwork.putLink(NETNS, { ...nic, addresses: [ADDRESS, "fe80::1/64"] });
  return bench;
}

/** A node whose VM is to start with two NICs whose networks assigned the same address. */
function startingTwins(): Bench {
  const bench = createBench(aScheduledVmi(["one", "two"]));
  for (const name of ["one", "two"] as const) {
    putNic(bench, name);
    const nic = bench.podNetwork.findLink(NETNS, attachment(name).podInterfaceName);
    if (nic === undefined) throw new Error("the scene has no NIC");
    bench.podNetwork.putLink(NETNS, { ...nic, addresses: [ADDRESS] });
  }
  return bench;
}

function given(bench: Bench): string | undefined {
  return bench.addressServers.requestLease(NETNS, MAC)?.ipv4?.address;
}

async function isReady(bench: Bench): Promise<boolean> {
  const ifaces = (await bench.vmi()).status?.interfaces ?? [];
  return ifaces.find(({ name }) => name === "one")?.hotplug?.phase === "Ready";
}

test("move from the pod NIC to the guest", async () => {
  const bench = starting();
  await bench.run();
  expect(bench.podNetwork.findLink(NETNS, podInterfaceName)?.addresses).toEqual([]);
  expect([given(bench), await isReady(bench)]).toEqual([ADDRESS, true]);
  expect(bench.addressServers.count).toBe(1);
});

test.each(Array.from({ length: 8 }, (_none, at) => at + 1))(
  "survive a crash at effect %i",
  async (effect) => {
    for (const after of [false, true]) {
      const bench = starting();
      bench.crashAt(effect, after);
      await bench.run();
      expect([given(bench), await isReady(bench)]).toEqual([ADDRESS, true]);
    }
  },
);

test("are served by the next process again", async () => {
  const bench = starting();
  await bench.run();
  bench.addressServers.kill(NETNS);
  expect(given(bench)).toBeUndefined();
  await bench.run();
  expect(given(bench)).toBe(ADDRESS);
});

test("report a server that cannot be started, and retry", async () => {
  const bench = starting();
  bench.addressServers.failNext(
    new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason: "no memory" }),
  );
  await bench.resume();
  expect(given(bench)).toBeUndefined();
  expect((await bench.vmi()).status?.interfaces?.[0]?.hotplug).toMatchObject({
    reason: "AddressesNotServed",
  });
  bench.nowMs += UNPLUG_RETRY_INTERVAL_MS;
  await bench.resume();
  expect(given(bench)).toBe(ADDRESS);
});

test("block only the NIC whose server does not start", async () => {
  const bench = startingTwins();
  bench.addressServers.failNext(
    new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason: "bad options" }),
  );
  await bench.resume();
  const { interfaces = [] } = (await bench.vmi()).status ?? {};
  expect(interfaces.map(({ name, hotplug }) => [name, hotplug?.reason])).toEqual([
    ["one", "AddressesNotServed"],
    ["two", undefined],
  ]);
  expect(bench.addressServers.count).toBe(1);
  bench.nowMs += UNPLUG_RETRY_INTERVAL_MS;
  await bench.resume();
  expect(bench.addressServers.count).toBe(2);
});
