// SPDX-License-Identifier: Apache-2.0
// The status has the guest's NIC names and addresses as soon as its agent reports them, for initial and plugged NICs;
// and its health by probes.
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { examine } from "../examine.ts";
import {
  addInterface,
  CHANGE_MS,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  setAddress,
} from "../machine.ts";

const VM = "named";
/** A guest without an agent that has an agent's channel. */
const DEAF = "deaf";
const PORT = 8080;
/** VMI uids of the guest, and of the first guest without an agent, which is deleted. */
let uid = "";
let deafUid = "";
/** Failures of its liveness probe while it booted: on a slow machine the first probes precede the agent. */
let failuresAtBoot: readonly string[] = [];
/** A guest under emulation boots beside another one, is probed, ends, and restarts after a pause. */
const RESTART_MS = 300_000;
/** The fourth agent query is a minute after a change, and later ones follow every two minutes. */
const ASKED_AGAIN_MS = 150_000;

async function reportedName(iface: string): Promise<string> {
  return eventually(() => ifaceStatus(VM, iface)?.interfaceName, { withinMs: CHANGE_MS });
}

beforeAll(async () => {
  const readinessProbe = { httpGet: { port: PORT }, periodSeconds: 1, timeoutSeconds: 5 };
  const livenessProbe = {
    exec: { command: ["sh", "-c", "exit 0"] },
    timeoutSeconds: 60,
    failureThreshold: 60,
  };
  const deafProbe = { guestAgentPing: {}, periodSeconds: 1, failureThreshold: 1 };
  machine.apply(
    vmManifest({
      name: VM,
      image: "agent",
      pcieRootPorts: FEW_PORTS,
      probes: { readinessProbe, livenessProbe },
    }),
    vmManifest({ name: DEAF, pcieRootPorts: FEW_PORTS, probes: { livenessProbe: deafProbe } }),
  );
  deafUid = await eventually(() => machine.findVmi(DEAF)?.metadata.uid, { withinMs: CHANGE_MS });
  await machine.booted(VM);
  uid = machine.findVmi(VM)?.metadata.uid ?? "";
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM, DEAF);
});

test.each([
  { name: "default", plug: false },
  { name: "red1", plug: true },
])("NIC $name has the name that the guest uses", async ({ name, plug }) => {
  if (plug) addInterface(VM, { name, network: "red" });
  const { mac = "" } = await expectReady(VM, name);
  expect(await reportedName(name)).toBe(await guestNic(VM, mac));
  expect(ifaceStatus(VM, name)?.infoSource).toContain("guest-agent");
});

test("reports addresses that the guest configured itself, with their source, at their NIC", async () => {
  const cidrs = ["10.99.7.2/24", "10.99.7.3/24", "fd99:7::2/64"];
  for (const cidr of cidrs) await setAddress(VM, "red1", cidr);
  const status = await eventually(
    () => {
      const reported = ifaceStatus(VM, "red1");
      return reported?.ipAddresses?.includes("fd99:7::2") === true ? reported : undefined;
    },
    { withinMs: ASKED_AGAIN_MS },
  );
  expect(status.ipAddresses).toEqual(
    expect.arrayContaining(["10.99.7.2", "10.99.7.3", "fd99:7::2"]),
  );
  expect(status).toMatchObject({
    ipAddress: "10.99.7.2",
    infoSource: "domain, guest-agent, multus-status",
    addressInfo: { source: "guest-agent" },
    mtu: 1500,
  });
  expect(ifaceStatus(VM, "default")?.infoSource).toBe("domain, guest-agent");
  // The guest's loopback is ignored.
  const all = machine.findVmi(VM)?.status?.interfaces ?? [];
  expect(all.filter(({ name }) => name === undefined)).toEqual([]);
});

test("reports the agent and the guest's kernel", async () => {
  const { conditions = [], guestOSInfo } = await eventually(
    () => {
      const status = machine.findVmi(VM)?.status;
      return status?.guestOSInfo === undefined ? undefined : status;
    },
    { withinMs: CHANGE_MS },
  );
  expect(conditions).toContainEqual(
    expect.objectContaining({ type: "AgentConnected", status: "True" }),
  );
  expect(guestOSInfo?.kernelRelease).toMatch(/^\d+\.\d+/);
  expect(guestOSInfo?.machine).toMatch(/^(x86_64|aarch64)$/);
});

test("the list shows the names", async () => {
  const name = await reportedName("red1");
  const line = machine
    .patchbay("get", "interfaces", VM)
    .split("\n")
    .find((row) => row.startsWith("red1 "));
  expect(line?.trimEnd().endsWith(name)).toBe(true);
});

/** Events of a VM's launchers, as REASON: MESSAGE (COUNT). */
function launcherEvents(vm: string): readonly string[] {
  return machine
    .events()
    .filter(({ involvedObject }) => involvedObject.name.startsWith(`virt-launcher-${vm}-`))
    .map(({ reason, message, count = 1 }) => `${reason}: ${message} (${String(count)})`);
}

function livenessFailures(): readonly string[] {
  return launcherEvents(VM).filter((event) => event.includes("Liveness"));
}

function readyOf(): unknown {
  return machine.findVmi(VM)?.status?.conditions?.find(({ type }) => type === "Ready");
}

test("detects a missing default route from the guest's own routes", async () => {
  // As by DHCP, without the default route.
  const { ipAddress = "" } = await expectReady(VM, "default");
  await setAddress(VM, "default", `${ipAddress}/24`);
  const found = await examine(VM, "default");
  expect(found).toMatchObject({ code: 1, dead: "guest NoDefaultRoute" });
});

test("a guest and its VM are ready as soon as its probe succeeds", async () => {
  failuresAtBoot = livenessFailures();
  expect(readyOf()).toMatchObject({ status: "False", reason: "ContainersNotReady" });
  const nic = await guestNic(VM, ifaceStatus(VM, "default")?.mac ?? "");
  for (const order of [`lease ${nic}`, `serve ${String(PORT)}`]) {
    const { code, lines } = await machine.console(VM).run(order, { timeoutMs: CHANGE_MS });
    if (code !== 0) throw new Error(lines.join("\n"));
  }
  expect(await examine(VM, "default")).toMatchObject({ code: 0, dead: "" });
  machine.kubectl("wait", `vmi/${VM}`, "--for=condition=Ready", "--timeout=60s");
  machine.kubectl("wait", `vm/${VM}`, "--for=condition=Ready", "--timeout=60s");
  const pods = machine.kubectl("get", "pods", "-l", `vm.kubevirt.io/name=${VM}`);
  expect(pods).toMatch(/ (\d)\/\1 +Running +0 /);
});

test("a guest that fails its liveness probe is ended, and its VM starts another one", async () => {
  const restarted = await eventually(
    () => {
      const vmi = machine.findVmi(DEAF);
      const isAnother = vmi !== undefined && vmi.metadata.uid !== deafUid;
      return isAnother && vmi.status?.phase === "Running" ? vmi : undefined;
    },
    { withinMs: RESTART_MS },
  );
  expect(restarted.metadata.deletionTimestamp).toBeUndefined();
  const reported = launcherEvents(DEAF);
  expect(reported).toContainEqual(expect.stringMatching(/^Unhealthy: Liveness probe failed: /));
  // A responsive guest is not ended.
  expect(machine.findVmi(VM)?.metadata.uid).toBe(uid);
  expect(livenessFailures().filter((event) => !failuresAtBoot.includes(event))).toEqual([]);
});
