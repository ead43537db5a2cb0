// SPDX-License-Identifier: Apache-2.0
// Small frames per second from and to a guest, through a tap and the kernel, and by vhost-user through dpdk-testpmd;
// also per second of QEMU's processor time, which depends less on the load.
import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  eventually,
  installPlugin,
  Testpmd,
  vmManifest,
  type Forwarding,
  type Machine,
} from "@patchbay/support";
import { printTable } from "../report.ts";
import { PLAIN, withMachine } from "../standalone-machine.ts";

const VM = "flow";
const BYTES = 60;
const FRAMES = 100_000;
const SECONDS = 5;
const SINK = "02:00:00:00:f1:09";
const TYPE = "patchbay-vhost-user";
const PLUGIN = join(import.meta.dirname, "../../../packages/adapters/cni/build", TYPE);
const SOCKETS = "/run/patchbay/vhost-user";
const ADD = `/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/${VM}/addinterface`;
const TIMEOUT = { withinMs: 120_000 };
/** The receiving guest's. */
const ANSWER = { timeoutMs: 300_000 };
/** Clock ticks in a second. Source: getconf CLK_TCK, 100 on Linux. */
const TICKS = 100;

/** Frames and their cost. */
interface Flow {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

interface Nic {
  readonly name: string;
  readonly mac: string;
}

/** Writes frames for that MAC into a tap of the bridge until it is stopped. Source: linux/if_tun.h */
const PUMP = `open(T, "+<", "/dev/net/tun") or die $!;
  my $request = pack("Z16 S x22", $ARGV[0], 0x1002); ioctl(T, 0x400454ca, $request) or die $!;
  system("ip", "link", "set", $ARGV[0], "master", $ARGV[1], "up");
  my $frame = pack("H12 H12 H4", $ARGV[2], "02000000f10a", "88b5") . "x" x ${String(BYTES - 14)};
  syswrite(T, $frame) while 1;`;

/** Installs the plugin in CNI's directory temporarily. */
async function withPlugin(use: () => Promise<void>): Promise<void> {
  const remove = installPlugin(`${TYPE}-perf`, (path) => {
    copyFileSync(PLUGIN, path);
  });
  try {
    await use();
  } finally {
    remove();
  }
}

function startGuest(machine: Machine): void {
  const network = { binding: { fast: { domainAttachmentType: "vhostuser" } } };
  const patch = JSON.stringify({ spec: { configuration: { network } } });
  machine.kubectl("patch", "kubevirt/kubevirt", "-n", "patchbay", "--type", "merge", "-p", patch);
  const config = {
    cniVersion: "1.0.0",
    name: "fast",
    type: `${TYPE}-perf`,
    capabilities: { CNIDeviceInfoFile: true },
  };
  const nics = [{ name: "default" }, { name: "plain", network: PLAIN.name }];
  // As a user writes it: ready for such a NIC.
  const limits = JSON.stringify({ limits: { "vhost-user.patchbay.io/sockets": "1" } });
  const manifest = JSON.stringify(vmManifest({ name: VM, nics }));
  machine.apply(
    {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name: "fast", namespace: "default" },
      spec: { config: JSON.stringify(config) },
    },
    JSON.parse(manifest.replace('"domain":{', `"domain":{"resources":${limits},`)),
  );
}

async function nicOf(machine: Machine, iface: string): Promise<Nic> {
  const mac = await eventually(() => {
    const found = machine.findVmi(VM)?.status?.interfaces?.find(({ name }) => name === iface);
    return found?.hotplug?.phase === "Ready" ? found.mac : undefined;
  }, TIMEOUT);
  const { lines } = await machine.console(VM).run("report");
  const line = lines.find((each) => each.includes(` mac ${mac} `)) ?? "";
  return { name: /nic (\S+)/.exec(line)?.[1] ?? "", mac };
}

/** Processor time of the guest's QEMU, seconds. Source: proc(5), utime and stime. */
function cpuSeconds(): number {
  const of = `guest=default_${VM},`;
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const pid = pids.find((each) => {
    try {
      const line = readFileSync(`/proc/${each}/cmdline`, "utf8");
      return line.includes("qemu-system") && line.includes(of);
    } catch {
      return false;
    }
  });
  if (pid === undefined) throw new Error("the guest has no QEMU");
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

function numberIn(lines: readonly string[], pattern: RegExp): number {
  const found = lines.flatMap((line) => pattern.exec(line)?.[1] ?? [])[0];
  if (found === undefined) throw new Error(`the guest says ${lines.join("; ")}`);
  return Number(found);
}

async function send(machine: Machine, { name }: Nic): Promise<Flow> {
  const before = cpuSeconds();
  const command = `send ${name} ${SINK} ${String(FRAMES)} ${String(BYTES)}`;
  const { lines } = await machine.console(VM).run(command, ANSWER);
  const sent = numberIn(lines, /sent (\d+)/);
  const seconds = numberIn(lines, / us (\d+)/) / 1_000_000;
  return { perSecond: sent / seconds, perCpuSecond: sent / (cpuSeconds() - before) };
}

async function hear(machine: Machine, { name }: Nic): Promise<Flow> {
  const before = cpuSeconds();
  const { lines } = await machine.console(VM).run(`heard ${name} ${String(SECONDS)}`, ANSWER);
  const received = numberIn(lines, /heard (\d+)/);
  return { perSecond: received / SECONDS, perCpuSecond: received / (cpuSeconds() - before) };
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function hearByTap(machine: Machine, nic: Nic): Promise<Flow> {
  const text = ["pbp-pump", PLAIN.bridge, nic.mac.replaceAll(":", "")];
  const pump = spawn("perl", ["-e", PUMP, ...text], { stdio: "ignore" });
  try {
    return await hear(machine, nic);
  } finally {
    await end(pump);
  }
}

/** The NIC while that dataplane serves it. */
async function served(
  machine: Machine,
  forwarding: Forwarding,
  use: (nic: Nic) => Promise<Flow>,
): Promise<Flow> {
  const uid = machine.findPod(VM)?.metadata.uid ?? "";
  const nic = `pod${createHash("sha256").update("fast").digest("hex").slice(0, 11)}`;
  const console = machine.console(VM);
  const since = console.position();
  const dataplane = await Testpmd.start([`${SOCKETS}/${uid}/${nic}.sock`], 1, { forwarding });
  try {
    await console.waitForLine(/nic added/, { timeoutMs: TIMEOUT.withinMs, since });
    return await use(await nicOf(machine, "fast"));
  } finally {
    await dataplane.stop();
  }
}

async function macOf(machine: Machine, iface: string): Promise<string> {
  const specified = (): string | undefined =>
    machine.findVmi(VM)?.spec.domain.devices?.interfaces?.find(({ name }) => name === iface)
      ?.macAddress;
  return eventually(specified, TIMEOUT);
}

async function measure(machine: Machine, rounds: number): Promise<void> {
  startGuest(machine);
  await machine.booted(VM);
  const plain = await nicOf(machine, "plain");
  const body = {
    name: "fast",
    networkAttachmentDefinitionName: "fast",
    binding: { name: "fast" },
  };
  await eventually(() => machine.put(ADD, body).code === 0, TIMEOUT);
  const to = await macOf(machine, "fast");
  const ways: readonly (readonly [string, () => Promise<Flow>])[] = [
    ["from the guest, through a tap", () => send(machine, plain)],
    [
      "from the guest, by vhost-user",
      () => served(machine, { mode: "rxonly" }, (nic) => send(machine, nic)),
    ],
    ["to the guest, through a tap", () => hearByTap(machine, plain)],
    [
      "to the guest, by vhost-user",
      () => served(machine, { mode: "txonly", to }, (nic) => hear(machine, nic)),
    ],
  ];
  const rows = ways.map(([label, way]) => ({ label, way, flows: new Array<Flow>() }));
  for (let round = 0; round < rounds; round += 1) {
    for (const { way, flows } of rows) flows.push(await way());
  }
  const how = `frames of ${String(BYTES)} bytes, ${String(rounds)} rounds`;
  printTable(
    `${how}: in a second`,
    rows.map(({ label, flows }) => ({ label, values: flows.map((flow) => flow.perSecond) })),
  );
  printTable(
    `${how}: in a second of QEMU's processor time`,
    rows.map(({ label, flows }) => ({ label, values: flows.map((flow) => flow.perCpuSecond) })),
  );
}

/** Prints both directions for one guest. */
export async function measureDatapaths(rounds: number): Promise<void> {
  await withPlugin(() => withMachine((machine) => measure(machine, rounds)));
}
