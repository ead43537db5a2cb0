// SPDX-License-Identifier: Apache-2.0
// On a network with persistent addresses, a VM keeps its address over stop, start, the deletion of its launcher, and a migration,
// while other VMs want addresses of the same pool. A VM without an address starts, and gets its NIC later. A network swap moves the NIC
// to a claim of the new network.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { IPAM_CLAIMS, type IpamClaim } from "@patchbay/api";
import {
  eventually,
  FEW_PORTS,
  installThirdPartyCni,
  SecondNode,
  vmManifest,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ALL_MS } from "../guest.ts";
import {
  addInterface,
  CHANGE_MS,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  removeInterface,
} from "../machine.ts";
import { moveByCommand } from "../migration/two-nodes.ts";
import { ROOT } from "../standalone.ts";

const NETWORK = "lasting";
const SUBNET = "10.87.5";
/** Network of the swap. */
const OTHER = "second";
const OTHER_SUBNET = "10.87.6";
const [VM, LATE, HOLDER] = ["keeper", "latecomer", "alpha"] as const;
/** The pool's only addresses. The VM requests the second, which the network would assign last. */
const [FIRST, SECOND] = [`${SUBNET}.2`, `${SUBNET}.3`] as const;
const ANNOTATIONS = { "network.kubevirt.io/addresses": JSON.stringify({ [NETWORK]: [SECOND] }) };
const NICS = [{ name: NETWORK, network: NETWORK }] as const;

const cni = installThirdPartyCni();
const leases = mkdtempSync(join(tmpdir(), "patchbay-claims-"));
let node: SecondNode | undefined;

function definition(name: string, subnet: string): object {
  mkdirSync(join(leases, name));
  const ranges = { subnet: `${subnet}.0/29`, rangeStart: `${subnet}.2`, rangeEnd: `${subnet}.3` };
  const config = {
    cniVersion: "1.0.0",
    name,
    type: cni.type,
    behavior: "claims",
    allowPersistentIPs: true,
    subnets: ranges.subnet,
    bridge: `pbt-${name}`,
    isGateway: true,
    gateway: `${subnet}.1`,
    kubeconfig: join(machine.dataDir, "kubeconfig"),
    kubectl: execFileSync("sh", ["-c", "command -v kubectl"], { encoding: "utf8" }).trim(),
    pool: { dataDir: leases, ranges: [[ranges]] },
  };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify(config) },
  };
}

beforeAll(async () => {
  machine.apply(
    definition(NETWORK, SUBNET),
    definition(OTHER, OTHER_SUBNET),
    vmManifest({
      name: VM,
      image: "agent",
      annotations: ANNOTATIONS,
      nics: NICS,
      pcieRootPorts: FEW_PORTS,
    }),
  );
  node = await SecondNode.start(machine, {
    name: "node-2",
    guestImage: join(ROOT, ".cache/guest"),
  });
  await machine.booted(VM);
});

afterAll(async () => {
  machine.deleteIfPresent("vm", VM, LATE);
  await node?.end();
  machine.deleteIfPresent("net-attach-def", NETWORK, OTHER);
  // The bridges exist on the nodes whose VMs used the networks. Those of the second node are deleted with its namespace.
  const bridges = [NETWORK, OTHER].map((name) => `pbt-${name}`);
  for (const bridge of bridges.filter((name) => existsSync(`/sys/class/net/${name}`)))
    execFileSync("ip", ["link", "del", bridge]);
  cni.remove();
  rmSync(leases, { recursive: true });
});

function listClaims(vm: string): readonly IpamClaim[] {
  const { group, version, resource } = IPAM_CLAIMS;
  const path = `/apis/${group}/${version}/namespaces/default/${resource}`;
  const { items } = machine.read(path) as { readonly items: readonly IpamClaim[] };
  return items.filter(({ metadata }) => metadata.name.startsWith(`${vm}.${NETWORK}`));
}

function findClaim(vm: string): IpamClaim | undefined {
  return listClaims(vm).find(({ metadata }) => metadata.name === `${vm}.${NETWORK}`);
}

/** Expects that the attachment, the claim and the guest have the address. Returns the claim's uid. */
async function expectAddress(vm: string, address: string): Promise<string> {
  const { mac = "" } = await expectReady(vm, NETWORK);
  const attachments = machine.findVmi(vm)?.status?.attachments ?? [];
  expect(attachments.find(({ name }) => name === NETWORK)?.ips).toEqual([address]);
  const { metadata, status } = findClaim(vm) ?? {};
  expect(status?.ips).toEqual([`${address}/29`]);
  const [launcher] = Object.keys(machine.findVmi(vm)?.status?.activePods ?? {});
  const pods = machine.list("pod", `vm.kubevirt.io/name=${vm}`);
  expect(pods.find((pod) => pod.metadata.uid === launcher)?.metadata.name).toBe(status?.ownerPod);
  const nic = await guestNic(vm, mac);
  const { lines } = await machine.console(vm).run(`lease ${nic}`, { timeoutMs: 40_000 });
  expect(lines.join("\n")).toContain(`lease ${address}/29 `);
  return metadata?.uid ?? "";
}

async function restarted(uid: string | undefined): Promise<void> {
  const isRunning = (): boolean => {
    const { metadata, status } = machine.findVmi(VM) ?? {};
    return metadata !== undefined && metadata.uid !== uid && status?.phase === "Running";
  };
  await eventually(isRunning, { withinMs: ALL_MS });
  await machine.booted(VM);
}

let claimUid = "";

test("the network assigns the requested address to the claim of a VM", async () => {
  claimUid = await expectAddress(VM, SECOND);
  expect(claimUid).not.toBe("");
  expect(findClaim(VM)?.spec.ipRequests).toEqual([`${SECOND}/29`]);
});

test("a stopped VM keeps its address, and a VM without one starts without the NIC", async () => {
  machine.patchbay("stop", VM);
  await eventually(() => machine.findVmi(VM) === undefined, { withinMs: ALL_MS });
  addInterface(HOLDER, { name: NETWORK, network: NETWORK });
  await expectReady(HOLDER, NETWORK);
  expect(findClaim(HOLDER)?.status?.ips).toEqual([`${FIRST}/29`]);
  machine.apply(vmManifest({ name: LATE, nics: NICS, pcieRootPorts: FEW_PORTS }));
  await machine.booted(LATE);
  expect(ifaceStatus(LATE, NETWORK)?.hotplug).toMatchObject({
    phase: "PodAttaching",
    reason: "AddressesExhausted",
  });
  machine.patchbay("start", VM);
  await restarted(undefined);
  expect(await expectAddress(VM, SECOND)).toBe(claimUid);
});

test("the next launcher has the address after the launcher was deleted", async () => {
  const { uid } = machine.findVmi(VM)?.metadata ?? {};
  const pods = machine.list("pod", `vm.kubevirt.io/name=${VM}`);
  machine.kubectl("delete", "pod", "--wait=false", ...pods.map(({ metadata }) => metadata.name));
  await restarted(uid);
  expect(await expectAddress(VM, SECOND)).toBe(claimUid);
});

test("a migrated guest has the address", async () => {
  const from = machine.findVmi(VM)?.status?.nodeName;
  await moveByCommand(VM);
  expect(machine.findVmi(VM)?.status?.nodeName).not.toBe(from);
  expect(await expectAddress(VM, SECOND)).toBe(claimUid);
});

test("the NIC that lacked an address is plugged when a claim is deleted", async () => {
  removeInterface(HOLDER, NETWORK);
  await eventually(() => findClaim(HOLDER) === undefined, { withinMs: CHANGE_MS });
  await eventually(() => ifaceStatus(LATE, NETWORK)?.hotplug?.phase === "Ready", {
    withinMs: ALL_MS,
  });
  expect(findClaim(LATE)?.status?.ips).toEqual([`${FIRST}/29`]);
});

test("a network swap gives the NIC a claim of the new network, which replaces the former claim", async () => {
  const index = machine
    .findVm(LATE)
    ?.spec.template.spec.networks?.findIndex(({ name }) => name === NETWORK);
  const path = `/spec/template/spec/networks/${String(index)}/multus/networkName`;
  machine.patch("vm", LATE, [{ op: "replace", path, value: OTHER }]);
  await eventually(
    () => {
      const claims = listClaims(LATE).map(({ spec, status }) => [spec.network, status?.ips]);
      expect(claims).toEqual([[OTHER, [`${OTHER_SUBNET}.2/29`]]]);
      return true;
    },
    { withinMs: ALL_MS },
  );
  await expectReady(LATE, NETWORK);
  const [attachment, ...others] = machine.findVmi(LATE)?.status?.attachments ?? [];
  expect(others).toEqual([]);
  expect(attachment).toMatchObject({ networkName: `default/${OTHER}`, ips: [`${OTHER_SUBNET}.2`] });
  expect(attachment?.reason).toBeUndefined();
});

test("the claim of a deleted VM is deleted", async () => {
  machine.deleteIfPresent("vm", LATE);
  await eventually(() => listClaims(LATE).length === 0, { withinMs: ALL_MS });
});
