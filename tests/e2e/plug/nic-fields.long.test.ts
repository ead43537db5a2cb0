// SPDX-License-Identifier: Apache-2.0
// Fields of interfaces behind feature gates, as the guest and the pod see them.
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ipIn } from "../inventory.ts";
import { ALL_MS } from "../guest.ts";
import { CHANGE_MS, expectReady, guestNic, ifaceStatus, machine } from "../machine.ts";

const VM = "nic-fields";
const IFACES = "spec.template.spec.domain.devices.interfaces";
const [INITIAL_MTU, LOWERED_MTU] = [1400, 1300];

function allow(featureGates: readonly string[] | null): void {
  const developerConfiguration = { featureGates };
  machine.patch("kubevirt", "kubevirt", { spec: { configuration: { developerConfiguration } } });
}

const MANIFEST = vmManifest({
  name: VM,
  pcieRootPorts: FEW_PORTS,
  cores: 2,
  nics: [
    { name: "default", binding: "masquerade", mtu: INITIAL_MTU, queues: 1 },
    { name: "blue", network: "blue", mtu: 9000 },
  ],
});

function apply(): string {
  try {
    machine.apply(MANIFEST);
    return "";
  } catch (error) {
    return String(error);
  }
}

let refusal = "";

beforeAll(async () => {
  refusal = apply();
  allow(["InterfaceMTUOverride", "NetworkInterfaceQueueLimits", "NetworkBandwidthLimiting"]);
  await eventually(() => apply() === "", { withinMs: CHANGE_MS });
  await machine.booted(VM);
}, ALL_MS);

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
  allow(null);
});

/** The line of the guest's report about the NIC of an interface. */
async function guestLine(name: string): Promise<string> {
  const { mac = "" } = await expectReady(VM, name);
  const nic = await guestNic(VM, mac);
  const { lines } = await machine.console(VM).run("report");
  return lines.find((line) => line.startsWith(`nic ${nic} `)) ?? "";
}

test("a field without its feature gate is rejected", () => {
  expect(refusal).toContain("InterfaceMTUOverride");
  expect(refusal).toContain("NetworkInterfaceQueueLimits");
});

test("a guest's NIC has the interface's MTU, and at most the network's", async () => {
  expect(await guestLine("default")).toContain(` mtu ${String(INITIAL_MTU)} `);
  expect(ifaceStatus(VM, "default")?.mtu).toBe(INITIAL_MTU);
  expect(await guestLine("blue")).toContain(" mtu 1500 ");
  expect((await expectReady(VM, "blue")).hotplug).toMatchObject({ reason: "MtuReduced" });
});

test("a guest's NIC has the interface's queues, and otherwise one pair for each vCPU", async () => {
  expect(await guestLine("default")).toContain(" queues 1 ");
  expect(await guestLine("blue")).toContain(" queues 2 ");
  expect(ifaceStatus(VM, "default")?.queueCount).toBe(1);
  expect(ifaceStatus(VM, "blue")?.queueCount).toBe(2);
});

function setMtu(index: number, mtu: number): void {
  const path = `/${IFACES.replaceAll(".", "/")}/${String(index)}/mtu`;
  const patch = JSON.stringify([{ op: "replace", path, value: mtu }]);
  machine.kubectl("patch", "vm", VM, "--type=json", "-p", patch);
}

function findPodUid(): string {
  return Object.keys(machine.findVmi(VM)?.status?.activePods ?? {})[0] ?? "";
}

function restartMessage(): string {
  const conditions = machine.findVm(VM)?.status?.conditions ?? [];
  return conditions.find(({ type }) => type === "RestartRequired")?.message ?? "";
}

test(
  "a lower MTU applies live, and a higher one needs a restart",
  { timeout: ALL_MS },
  async () => {
    setMtu(0, LOWERED_MTU);
    const mtus = (): readonly number[] => {
      const podUid = findPodUid();
      return ["tap0", "k6t-eth0"].map((name) =>
        Number(/ mtu (\d+) /.exec(ipIn(podUid, "link", "show", name))?.[1]),
      );
    };
    await eventually(() => mtus().every((mtu) => mtu === LOWERED_MTU), { withinMs: CHANGE_MS });
    await eventually(() => ifaceStatus(VM, "default")?.hotplug?.reason === "MtuDiffers", {
      withinMs: CHANGE_MS,
    });
    expect(restartMessage()).toBe("");
    setMtu(0, INITIAL_MTU + 1);
    await eventually(() => restartMessage().includes(`${IFACES}[0].mtu`), { withinMs: CHANGE_MS });
    expect(mtus()).toEqual([LOWERED_MTU, LOWERED_MTU]);
  },
);

/** Names of links in the pod whose traffic is limited. */
function limitedLinks(): readonly string[] {
  const links = JSON.parse(ipIn(findPodUid(), "-j", "link")) as readonly {
    readonly ifname: string;
    readonly qdisc: string;
  }[];
  return links.flatMap(({ ifname, qdisc }) => (qdisc === "tbf" ? [ifname] : [])).sort();
}

test("limits apply to a running NIC, and their removal too", { timeout: ALL_MS }, async () => {
  const path = `/${IFACES.replaceAll(".", "/")}/0/bandwidth`;
  const patch = (operation: object): void => {
    machine.kubectl("patch", "vm", VM, "--type=json", "-p", JSON.stringify([operation]));
  };
  const bandwidth = { inbound: { average: "1M" }, outbound: { average: "500k", peak: "1M" } };
  patch({ op: "add", path, value: bandwidth });
  await eventually(() => limitedLinks().join(" ") === "lim0 tap0", { withinMs: CHANGE_MS });
  await eventually(() => ifaceStatus(VM, "default")?.bandwidth !== undefined, {
    withinMs: CHANGE_MS,
  });
  expect(ifaceStatus(VM, "default")?.bandwidth).toEqual(bandwidth);
  expect(restartMessage()).not.toContain("bandwidth");
  patch({ op: "remove", path });
  await eventually(() => limitedLinks().length === 0, { withinMs: CHANGE_MS });
  expect(ipIn(findPodUid(), "link")).not.toContain("lim0");
});
