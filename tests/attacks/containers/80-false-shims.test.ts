// SPDX-License-Identifier: Apache-2.0
// Tenant processes that imitate a shim, which the sweep of orphaned shims would kill and unmount.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { listProcesses, removeOrphans } from "@patchbay/containerd";
import { createContainerRuntime } from "@patchbay/cri";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import { containerConfigFor, sandboxConfigFor } from "@patchbay/cri/testing";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdBench, type ContainerdBench } from "../../contract/containerd/bench.ts";
import { makeBusyboxImage, SUITE_IMAGE } from "../../contract/cri/containerd-runtime.ts";
import { compileProgram } from "./pod-machine.ts";

const files = createFiles();
let containerd: ContainerdBench;
let directory = "";
let programs = "";

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-attack-"));
  mkdirSync(join(directory, "logs"));
  const source = join(directory, "wait.c");
  writeFileSync(source, "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n");
  programs = compileProgram(source);
  renameSync(join(programs, "program"), join(programs, "containerd-shim-x"));
  chmodSync(programs, 0o755);
  containerd = await startContainerdBench({ sandboxImage: SUITE_IMAGE });
  const archive = join(directory, "busybox.tar");
  makeBusyboxImage(archive);
  await containerd.ctr("images", "import", archive);
});
afterAll(async () => {
  await containerd.close();
  for (const each of [directory, programs]) rmSync(each, { recursive: true });
});

/** A launcher user's process with the command line of this containerd's shim for that container id. */
async function runFalseShim(name: string, id: string): Promise<void> {
  const runtime = createContainerRuntime({
    endpoints: [containerd.endpoint],
    clock: createClock(),
  });
  try {
    const { cgroupParent, layout } = containerd;
    const input = sandboxConfigFor({ logDirectory: join(directory, "logs"), cgroupParent }, name);
    const namespaces = { ...input.security.namespaces, network: "NODE" as const };
    const sandbox = { ...input, hostname: "", security: { ...input.security, namespaces } };
    const program = "/bin/programs/containerd-shim-x";
    const command = [program, "-address", layout.socket, "-id", id];
    const mount = { hostPath: programs, containerPath: "/bin/programs", readonly: true };
    const mounts = [{ ...mount, propagation: "PRIVATE" as const }];
    const config = { ...containerConfigFor({ image: SUITE_IMAGE }, command), mounts };
    const user = { namespaces, runAsUser: names.LAUNCHER_UID, runAsGroup: names.LAUNCHER_UID };
    const security = { ...config.security, ...user };
    const sandboxId = await runtime.runSandbox(sandbox);
    const containerId = await runtime.createContainer(sandboxId, { ...config, security }, sandbox);
    await runtime.startContainer(containerId);
  } finally {
    runtime.close();
  }
}

async function falseShims(): Promise<readonly number[]> {
  const all = await listProcesses(files);
  const isFalse = (argv: readonly string[]): boolean =>
    argv[0] === "/bin/programs/containerd-shim-x" && argv.includes(containerd.layout.socket);
  return all.filter(({ argv }) => isFalse(argv)).map(({ pid }) => pid);
}

function mountsOfBench(): readonly string[] {
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  return lines.filter((line) => line.includes(containerd.directory));
}

test("attack 80: a pod process with a shim's command line causes no kill and no unmount", async () => {
  await runFalseShim("path", "../../../..");
  await runFalseShim("id", "f".repeat(64));
  const pids = await eventually(
    async () => {
      const found = await falseShims();
      return found.length === 2 ? found : undefined;
    },
    { withinMs: 10_000 },
  );
  const mounts = mountsOfBench();
  const killed: number[] = [];
  const { layout, cgroupParent } = containerd;
  const kill = (pid: number): Promise<void> => {
    killed.push(pid);
    return Promise.resolve();
  };
  const deps = { files, runner: createProcessRunner(), layout, cgroupParent, kill };
  expect(await removeOrphans(deps)).toEqual([]);
  expect(killed).toEqual([]);
  expect(mountsOfBench()).toEqual(mounts);
  expect(await falseShims()).toEqual(pids);
});
