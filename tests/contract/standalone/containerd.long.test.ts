// SPDX-License-Identifier: Apache-2.0
// The containerd of a standalone machine: its death, the supervisor's death, and the machine's end with running
// containers.
import { createHash, randomUUID } from "node:crypto";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ctr, buildLayout, listProcesses, mountsBelow, findShims } from "@patchbay/containerd";
import { createFiles, createProcessRunner, isRunning, signalProcess } from "@patchbay/os";
import { down } from "@patchbay/supervisor";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callPatchbay } from "../../../packages/cli/src/testing/run-patchbay.ts";
import { startContainerdBench, type ContainerdBench } from "../containerd/bench.ts";
import { bringUp, processOf, type NamedProcess } from "./processes.ts";

const UP_MS = 120_000;
const PAUSE = "localhost/patchbay/pause:dev";
/** Deeper than the longest path and than a recursive deletion's stack. */
const LEVELS = 30_000;
const files = createFiles();
const runner = createProcessRunner();
const id = randomUUID().slice(0, 8);
const dataDir = join(tmpdir(), `standalone-${id}`);
const layout = buildLayout({
  directory: join(dataDir, "containerd"),
  runDirectory: join(dataDir, "run", "containerd"),
  cniConfDirectory: join(dataDir, "cni", "net.d"),
});
const hash = createHash("sha256").update(dataDir).digest("hex").slice(0, 8);
const cgroup = `/patchbay-${hash}`;
const results = "/var/lib/cni/results";
const lines: string[] = [];
let another: ContainerdBench;

function print(line: string): void {
  lines.push(line);
}

function ourCtr(...args: readonly string[]): Promise<string> {
  return ctr({ runner, layout }, args);
}

function ownProcess(name: string): Promise<NamedProcess> {
  return processOf(dataDir, name);
}

function listGroups(): string {
  return execFileSync("find", ["/sys/fs/cgroup", "-name", cgroup.slice(1)], { encoding: "utf8" });
}

/** A container that leaves the same traces as a pod's. */
async function runContainer(name: string): Promise<void> {
  const below = ["--fifo-dir", join(layout.directory, "fifo"), "--runc-root", layout.runcRoot];
  const group = ["--cgroup", `${cgroup}/${name}`];
  await ourCtr("run", "--detach", ...below, ...group, PAUSE, name);
}

/** The address that its shim reports, because other suites' sockets are beside it. Source: containerd, runtime v2. */
async function shimSocketOf(name: string): Promise<string> {
  const bundle = join(layout.state, "io.containerd.runtime.v2.task/k8s.io", name);
  const address = (await files.readText(join(bundle, "address"))) ?? "";
  return address.trim().replace("unix://", "");
}

beforeAll(async () => {
  another = await startContainerdBench();
  const apiPort = 20_000 + (parseInt(id.slice(0, 4), 16) % 10_000);
  await bringUp(dataDir, ["--api-port", String(apiPort), "--bridge", `pbc${id}`], print);
}, UP_MS);
afterAll(async () => {
  await another.close();
  if (await files.exists(dataDir)) await down({ dataDir, purge: true, print });
  for (const owner of ["ours", "others"]) await files.remove(join(results, `${id}-${owner}`));
}, UP_MS);

test("imports the images that pods need, with progress", async () => {
  expect(lines.join("\n")).toMatch(/importing image virt-launcher, \d+ MB/);
  expect(await ourCtr("images", "ls", "--quiet")).toContain(PAUSE);
});

/** Runs the command line; returns its result and output. */
async function patchbay(...args: readonly string[]): Promise<{ code: number; said: string }> {
  const { exitCode, stdout, stderr } = await callPatchbay([...args, "--data-dir", dataDir]);
  return { code: exitCode, said: stdout + stderr };
}

test(
  "does not remove an image that a VM uses, in any spelling of its name",
  async () => {
    const source = join(dataDir, "source");
    await files.ensureDirectory(source);
    await files.writeAtomic(join(source, "vmlinuz"), "kernel");
    expect((await patchbay("image", "add", "guest", source)).said).toMatch(
      /image guest added: sha256:[0-9a-f]{64}, \d+ kB/,
    );
    const firmware = {
      kernelBoot: { container: { image: "guest:latest", kernelPath: "/vmlinuz" } },
    };
    const template = { spec: { domain: { firmware, devices: {} } } };
    const vm = {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      metadata: { name: "user", namespace: "default" },
      spec: { runStrategy: "Halted", template },
    };
    const file = join(dataDir, "vm.json");
    await files.writeAtomic(file, JSON.stringify(vm));
    const kubeconfig = ["--kubeconfig", join(dataDir, "kubeconfig")];
    const kubectl = (...args: readonly string[]) =>
      execFileSync("kubectl", [...kubeconfig, "--cache-dir", join(dataDir, "cache"), ...args]);
    kubectl("create", "-f", file);
    const refused = await patchbay("image", "remove", "guest");
    expect(refused).toMatchObject({ code: 4 });
    expect(refused.said).toContain("virtualmachine default/user");
    expect((await patchbay("complete", "images")).said).toBe("guest\n");
    kubectl("delete", "vm", "user");
    expect((await patchbay("image", "remove", "guest")).said).toBe("image guest removed\n");
    expect((await patchbay("image", "list")).said).not.toContain("guest ");
  },
  UP_MS,
);

test(
  "containers survive the death of containerd, which restarts",
  async () => {
    await runContainer("one");
    const before = await ownProcess("containerd");
    await signalProcess(before, "SIGKILL");
    await expect.poll(() => ownProcess("containerd")).not.toEqual(before);
    await expect.poll(() => ourCtr("tasks", "ls")).toMatch(/one +\d+ +RUNNING/);
  },
  UP_MS,
);

test(
  "a second up adopts containerd after the supervisor's death and imports nothing again",
  async () => {
    const before = await ownProcess("containerd");
    const supervisor = await ownProcess("supervisor");
    await signalProcess(supervisor, "SIGKILL");
    await expect.poll(() => isRunning(supervisor)).toBe(false);
    lines.length = 0;
    await bringUp(dataDir, [], print);
    expect(await ownProcess("containerd")).toEqual(before);
    expect(lines.join("\n")).toContain("containerd is already running");
    expect(lines.join("\n")).not.toContain("importing");
    expect(await ourCtr("tasks", "ls")).toMatch(/one +\d+ +RUNNING/);
  },
  UP_MS,
);

/** A path of `levels` nested directories. */
function makeDeepTree(top: string, levels: number): void {
  const script = `chdir $ARGV[0] or die; for (1..$ARGV[1]) { mkdir "d" or die; chdir "d" or die }`;
  execFileSync("perl", ["-e", script, top, String(levels)]);
}

async function keepResult(owner: string, config: string): Promise<void> {
  await files.ensureDirectory(results);
  const result = { kind: "cniCacheV1", config: Buffer.from(config).toString("base64") };
  await files.writeAtomic(join(results, `${id}-${owner}`), JSON.stringify(result));
}

test(
  "down leaves no process, socket, mount, group or result, and removes no foreign ones",
  async () => {
    await runContainer("two");
    const sockets = await Promise.all(["one", "two"].map(shimSocketOf));
    const areThere = () => Promise.all(sockets.map((socket) => files.exists(socket)));
    expect(new Set(sockets).size).toBe(2);
    expect(await areThere()).toEqual([true, true]);
    expect(listGroups()).not.toBe("");
    const conf = join(dataDir, "cni", "net.d", "10-patchbay.conflist");
    await keepResult("ours", (await files.readText(conf)) ?? "");
    await keepResult("others", "{}");
    const tree = join(dataDir, "pods", "left");
    await files.ensureDirectory(tree);
    makeDeepTree(tree, LEVELS);
    await down({ dataDir, print });
    expect(findShims(await listProcesses(files), layout.socket)).toEqual([]);
    expect(await areThere()).toEqual([false, false]);
    expect(mountsBelow((await files.readText("/proc/self/mountinfo")) ?? "", dataDir)).toEqual([]);
    expect(listGroups()).toBe("");
    const remaining = await files.list(results);
    expect(remaining.filter((name) => name.startsWith(id))).toEqual([`${id}-others`]);
    expect(await another.ctr("images", "ls", "--quiet")).toBe("");
  },
  UP_MS,
);

test(
  "down --purge deletes trees of any depth",
  async () => {
    await down({ dataDir, purge: true, print });
    expect(await files.exists(dataDir)).toBe(false);
  },
  UP_MS,
);
