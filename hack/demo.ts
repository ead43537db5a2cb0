// SPDX-License-Identifier: Apache-2.0
// The main use case step by step, with each command and its time. Prints a table at the end and leaves nothing behind.
import { join } from "node:path";
import { names } from "@patchbay/api";
import {
  bridgeNetworkManifest,
  endTrial,
  eventually,
  openTrial,
  vmiManifest,
  vmManifest,
} from "@patchbay/support";

const ROOT = join(import.meta.dirname, "..");
const GUESTS = ["alpha", "beta", "gamma"] as const;
const ADDRESSES = { alpha: "10.9.0.1", beta: "10.9.0.2", gamma: "10.9.0.3" } as const;
const CHANGE_MS = 60_000;

const rows: { readonly what: string; readonly seconds: number; readonly seen: string }[] = [];
const begun = performance.now();

function say(text: string): void {
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  process.stdout.write(`${seconds.padStart(7)} s  ${text}\n`);
}

function show(text: string): void {
  for (const line of text.trimEnd().split("\n")) process.stdout.write(`           | ${line}\n`);
}

/** Runs a step: prints its description and its result, and records both with the duration for the table. */
async function step(what: string, act: () => Promise<string> | string): Promise<void> {
  say(what);
  const started = performance.now();
  const observed = await act();
  const seconds = (performance.now() - started) / 1000;
  rows.push({ what, seconds, seen: observed });
  show(observed);
}

const machine = await openTrial(ROOT, "demo");
const { dataDir } = machine;

function run(...argv: readonly [string, ...string[]]): string {
  show(`$ ${argv.join(" ")}`);
  const [program, ...args] = argv;
  return program === "kubectl" ? machine.kubectl(...args) : machine.patchbay(...args);
}

function patch(kind: string, name: string, operations: readonly unknown[]): string {
  return run("kubectl", "patch", kind, name, "--type=json", "-p", JSON.stringify(operations));
}

function append(base: string, name: string, network: string): readonly unknown[] {
  return [
    { op: "add", path: `${base}/networks/-`, value: { name, multus: { networkName: network } } },
    { op: "add", path: `${base}/domain/devices/interfaces/-`, value: { name, bridge: {} } },
  ];
}

async function booted(...names: readonly string[]): Promise<string> {
  for (const name of names) await machine.booted(name);
  return `guests ${names.join(" and ")} are up`;
}

async function guestSays(name: string, pattern: RegExp, act: () => string): Promise<string> {
  const console = machine.console(name);
  const since = console.position();
  show(act());
  return `guest ${name}: ${await console.waitForLine(pattern, { timeoutMs: CHANGE_MS, since })}`;
}

async function nicOf(vmi: string, iface: string): Promise<string> {
  return eventually(
    async () => {
      const mac = machine.findVmi(vmi)?.status?.interfaces?.find(({ name }) => name === iface)?.mac;
      const { lines } = await machine.console(vmi).run("report");
      const line = lines.find((text) => mac !== undefined && text.includes(mac));
      return /^nic (\S+)/.exec(line ?? "")?.[1];
    },
    { withinMs: CHANGE_MS },
  );
}

async function pingAll(): Promise<string> {
  for (const name of GUESTS) {
    await machine.console(name).run(`address ${await nicOf(name, "blue")} ${ADDRESSES[name]}/24`);
  }
  const results: string[] = [];
  for (const [from, to] of [
    ["alpha", "beta"],
    ["beta", "gamma"],
    ["gamma", "alpha"],
  ] as const) {
    const { lines } = await machine
      .console(from)
      .run(`ping ${ADDRESSES[to]} 3 200`, { timeoutMs: CHANGE_MS });
    results.push(`${from} pings ${to}: ${lines.join(" ")}`);
    if (!lines.join(" ").includes("received 3")) throw new Error(results.join("\n"));
  }
  return results.join("\n");
}

async function gone(vmi: string, name: string): Promise<void> {
  await eventually(
    () => {
      const found = machine.findVmi(vmi);
      const remaining = [
        ...(found?.status?.interfaces ?? []),
        ...(found?.spec.domain.devices?.interfaces ?? []),
      ];
      return !remaining.some((entry) => entry.name === name);
    },
    { withinMs: CHANGE_MS },
  );
}

async function unplugWhilePinging(): Promise<string> {
  const ping = machine
    .console("alpha")
    .run(`ping ${ADDRESSES.beta} 30 100`, { timeoutMs: CHANGE_MS });
  const line = await guestSays("alpha", /nic removed/, () =>
    run("patchbay", "removeinterface", "alpha", "--name", "red", "--wait"),
  );
  await gone("alpha", "red");
  const { lines } = await ping;
  if (!lines.join(" ").includes("received 30")) throw new Error(lines.join("\n"));
  return `${line}\nmeanwhile over blue: ${lines.join(" ")}`;
}

async function unplugByState(): Promise<string> {
  const ifaces = machine.findVm("alpha")?.spec.template.spec.domain.devices?.interfaces ?? [];
  const index = String(ifaces.findIndex(({ name }) => name === "blue2"));
  const path = `/spec/template/spec/domain/devices/interfaces/${index}/state`;
  const line = await guestSays("alpha", /nic removed/, () =>
    patch("vm", "alpha", [{ op: "add", path, value: "absent" }]),
  );
  await gone("alpha", "blue2");
  return line;
}

/** Kills virt-handler, which creates links and devices, during an operation. The supervisor restarts virt-handler. */
async function killInTheMiddle(): Promise<string> {
  return guestSays("alpha", /nic added/, () => {
    const shown = run(
      ...(["patchbay", "addinterface", "alpha", "--name", "green"] as const),
      ...(["--network-attachment-definition-name", "red"] as const),
    );
    const pid = machine.pidOf("virt-handler");
    show(`$ kill -9 ${String(pid)}    # virt-handler`);
    process.kill(pid, "SIGKILL");
    return shown;
  });
}

/** Sends a request that must be rejected; returns the rejection. */
function refused(...args: readonly string[]): string {
  show(`$ patchbay ${args.join(" ")}`);
  const outcome = machine.try(["patchbay", "--data-dir", dataDir, ...args]);
  if (outcome.code === 0) throw new Error("the request was not refused");
  return outcome.stderr;
}

const PLAIN = "plain";
const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** Runs a pod that belongs to no VM. */
async function runPlainPod(): Promise<string> {
  machine.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: PLAIN },
    spec: {
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsUser: 107 },
      containers: [{ name: "main", image: names.LAUNCHER_IMAGE, command: ["sleep", "600"] }],
    },
  });
  const phase = (): string =>
    machine.kubectl("get", "pod", PLAIN, "-o", "jsonpath={.status.phase}");
  return eventually(() => phase() === "Running" && `pod ${PLAIN} runs`, { withinMs: CHANGE_MS });
}

/** Sets the pod's networks annotation. Resolves with the pod's links when net1 exists, or is gone for an empty annotation. */
async function annotate(networks: string): Promise<string> {
  show(run("kubectl", "annotate", "--overwrite", "pod", PLAIN, `${NETWORKS}=${networks}`));
  const isExpected = networks !== "";
  return eventually(
    () => {
      const nics = machine.kubectl("exec", PLAIN, "--", "ls", "/sys/class/net").split(/\s+/);
      return nics.includes("net1") === isExpected && `the pod has ${nics.join(" ").trim()}`;
    },
    { withinMs: CHANGE_MS },
  );
}

async function deleteAll(): Promise<string> {
  run("kubectl", "delete", "vm", "alpha", "beta", "--wait=true");
  run("kubectl", "delete", "vmi", "gamma", "--wait=true");
  run("kubectl", "delete", "pod", PLAIN, "--wait=true");
  await eventually(() => machine.kubectl("get", "vmi,pods", "-o", "name") === "", {
    withinMs: CHANGE_MS,
  });
  return "no VM, VMI or pod is left";
}

async function bringUp(): Promise<void> {
  await step("a standalone machine comes up", () => {
    run("patchbay", "image", "add", "guest", join(ROOT, ".cache/guest"));
    return run("patchbay", "up", "--api-port", "16643", "--bridge", "pbd0");
  });
  await step("two VMs boot", () => {
    machine.apply(
      bridgeNetworkManifest("blue", "pbd-blue", "10.77.2.0/24"),
      bridgeNetworkManifest("red", "pbd-red"),
      vmManifest({ name: "alpha" }),
      vmManifest({ name: "beta" }),
    );
    return booted("alpha", "beta");
  });
  await step("a VMI without a VM boots", () => {
    machine.apply(vmiManifest({ name: "gamma" }));
    return booted("gamma");
  });
}

async function plug(): Promise<void> {
  await step("network blue is plugged into alpha by the subresource", () =>
    guestSays("alpha", /nic added/, () =>
      run(
        ...(["patchbay", "addinterface", "alpha", "--name", "blue"] as const),
        ...(["--network-attachment-definition-name", "blue", "--wait"] as const),
      ),
    ),
  );
  await step("… into beta by a patch of the VM's template", () =>
    guestSays("beta", /nic added/, () =>
      patch("vm", "beta", append("/spec/template/spec", "blue", "blue")),
    ),
  );
  await step("… into gamma by a patch of the VMI", () =>
    guestSays("gamma", /nic added/, () => patch("vmi", "gamma", append("/spec", "blue", "blue"))),
  );
  await step("the guests ping one another over it", pingAll);
}

async function changeMore(): Promise<void> {
  await step("two more NICs at once", async () => {
    const operations = [
      ...append("/spec/template/spec", "red", "red"),
      ...append("/spec/template/spec", "blue2", "blue"),
    ];
    show(patch("vm", "alpha", operations));
    await nicOf("alpha", "red");
    await nicOf("alpha", "blue2");
    return run("patchbay", "get", "interfaces", "alpha");
  });
  await step("red is unplugged while blue keeps pinging", unplugWhilePinging);
  await step("blue2 is unplugged by state: absent", unplugByState);
  await step("virt-handler is killed in the middle of a plug, which is completed", killInTheMiddle);
  await step("taking out the NIC of the pod network is refused", () =>
    refused("removeinterface", "alpha", "--name", "default"),
  );
  await step("a network that is not there is refused", () =>
    refused(
      "addinterface",
      "alpha",
      "--name",
      "new",
      "--network-attachment-definition-name",
      "nowhere",
    ),
  );
  await step("a pod that is no VM's runs", runPlainPod);
  await step("… gains a NIC by its annotation", () => annotate("blue@net1"));
  await step("… and loses it", () => annotate(""));
  await step("everything is deleted, with its hot-plugged NICs", deleteAll);
}

/** Reports failures of the cleanup without throwing, so that they do not hide an earlier failure. */
function purge(): void {
  try {
    show(endTrial(machine));
  } catch (error) {
    process.stderr.write(`demo: ${String(error)}\n`);
    process.exitCode = 1;
  }
}

function printTable(): void {
  process.stdout.write(`\n${"step".padEnd(66)}  seconds  seen\n`);
  for (const { what, seconds, seen: observed } of rows) {
    const first = observed.trim().split("\n")[0] ?? "";
    process.stdout.write(`${what.padEnd(66)} ${seconds.toFixed(1).padStart(8)}  ${first}\n`);
  }
  process.stdout.write(
    `${"all".padEnd(66)} ${((performance.now() - begun) / 1000).toFixed(1).padStart(8)}\n`,
  );
}

try {
  await bringUp();
  await plug();
  await changeMore();
} catch (error) {
  // The cleanup may fail for the same reason, so this failure is printed first.
  process.stderr.write(`demo: ${String(error)}\n`);
  process.exitCode = 1;
} finally {
  say("the machine goes down and is purged");
  purge();
}
if (process.exitCode === undefined) printTable();
