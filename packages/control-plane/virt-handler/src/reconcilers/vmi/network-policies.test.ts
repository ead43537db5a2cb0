// SPDX-License-Identifier: Apache-2.0
// Network policies exist at a NIC's tap before the guest has the NIC, and follow changes while the guest runs.
import type { VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { NicPolicy } from "@patchbay/core/policies";
import { expect, test } from "vitest";
import { createBench, NETNS, type Bench } from "../../testing/bench.ts";
import { aScheduledVmi, attachment, linkNamesOf, putNic, running } from "../../testing/scene.ts";

const { podInterfaceName } = attachment("one");
const WIRING = {
  kind: "bridge",
  ...linkNamesOf("one"),
  podInterfaceName,
  mac: "02:00:00:00:00:01",
  mtu: 1500,
} as const;
const FIRST: NicPolicy = { ingress: [] };
const SECOND: NicPolicy = { ingress: [{ peers: ["10.88.0.7"] }] };

function onPodNetwork(vmi: VirtualMachineInstance): VirtualMachineInstance {
  return { ...vmi, spec: { ...vmi.spec, networks: [{ name: "one", pod: {} }] } };
}

async function hasPolicy(bench: Bench, policy: NicPolicy | undefined): Promise<boolean> {
  const view = await bench.podNetwork.observe({ fd: 8, inode: NETNS });
  return view.hasPolicy({ ...WIRING, ...(policy && { policy }) });
}

async function run(vmi: VirtualMachineInstance, policy: NicPolicy | undefined): Promise<Bench> {
  const bench = createBench(vmi);
  bench.policy = policy;
  putNic(bench, "one");
  await bench.resume();
  return bench;
}

async function phase(bench: Bench) {
  return (await bench.vmi()).status?.interfaces?.find(({ name }) => name === "one")?.hotplug;
}

test("a policy exists before the guest starts, and follows changes without a repair", async () => {
  const bench = await run(onPodNetwork(aScheduledVmi(["one"])), FIRST);
  expect(await phase(bench)).toMatchObject({ phase: "Ready" });
  expect(await hasPolicy(bench, FIRST)).toBe(true);
  const { length: calls } = bench.daemon.calls;
  for (const policy of [SECOND, undefined, FIRST]) {
    bench.policy = policy;
    await bench.resume();
    expect(await hasPolicy(bench, policy)).toBe(true);
  }
  expect(bench.daemon.calls.slice(calls).filter((call) => /attach|update/.test(call))).toEqual([]);
  expect(bench.events.filter((event) => event.includes("Drifted"))).toEqual([]);
});

test("a policy that cannot be written is reported, and written later", async () => {
  const bench = await run(onPodNetwork(aScheduledVmi(["one"])), FIRST);
  bench.policy = SECOND;
  bench.podNetwork.failNext("applyPolicy", new AppError("PODNET_FAILED", { message: "no memory" }));
  await bench.resume();
  expect(await hasPolicy(bench, FIRST)).toBe(true);
  expect(await phase(bench)).toMatchObject({ phase: "Ready", reason: "PolicyFailed" });
  bench.nowMs += 60_000;
  await bench.resume();
  expect(await hasPolicy(bench, SECOND)).toBe(true);
});

test("a NIC on another network has no policy of the pod network", async () => {
  const bench = await run(aScheduledVmi(["one"]), FIRST);
  expect(await phase(bench)).toMatchObject({ phase: "Ready" });
  expect(await hasPolicy(bench, undefined)).toBe(true);
});

test("a NIC on a secondary network has the policy of its network, and follows changes", async () => {
  const bench = createBench(aScheduledVmi(["one"]));
  bench.networkPolicies = { "default/blue": FIRST, "default/red": SECOND };
  putNic(bench, "one");
  await bench.resume();
  expect(await phase(bench)).toMatchObject({ phase: "Ready" });
  expect(await hasPolicy(bench, FIRST)).toBe(true);
  bench.networkPolicies = { "default/blue": SECOND };
  await bench.resume();
  expect(await hasPolicy(bench, SECOND)).toBe(true);
  bench.networkPolicies = { "default/red": FIRST };
  await bench.resume();
  expect(await hasPolicy(bench, undefined)).toBe(true);
});

// printf one/default/red | sha256sum
const RED = "ed42fef81fd";

test("a NIC that changes its network has the old network's policy until its tap moves", async () => {
  const bench = await running(["one"]);
  bench.networkPolicies = { "default/blue": FIRST, "default/red": SECOND };
  await bench.resume();
  const onRed = { ...attachment("one"), networkName: "default/red", podInterfaceName: `pod${RED}` };
  await bench.edit((vmi) => ({
    ...vmi,
    spec: { ...vmi.spec, networks: [{ name: "one", multus: { networkName: "red" } }] },
    status: { ...vmi.status, attachments: [attachment("one"), onRed] },
  }));
  await bench.resume();
  expect(await hasPolicy(bench, FIRST)).toBe(true);
  const nic = { name: `pod${RED}`, kind: "veth", mac: "02:00:00:00:00:09", mtu: 1500, up: true };
  bench.podNetwork.putLink(NETNS, nic);
  bench.podNetwork.failNext("wireTap", new AppError("PODNET_FAILED", { message: "no" }));
  await bench.resume();
  const { effects } = bench;
  await bench.resume();
  expect(bench.effects).toBe(effects);
  expect(await hasPolicy(bench, FIRST)).toBe(true);
  bench.nowMs += 60_000;
  await bench.resume();
  expect(bench.podNetwork.findLink(NETNS, WIRING.tapName)?.master).toBe(`k6t-${RED}`);
  expect(await hasPolicy(bench, SECOND)).toBe(true);
});
