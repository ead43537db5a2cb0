// SPDX-License-Identifier: Apache-2.0
// Processes of a container: started through pod-shim, which outlives the runtime; found again by its files.
import { join } from "node:path";
import type { Container, Pod } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { isRunning, signalProcess, startDetached, type ProcessName } from "@patchbay/os";
import type { Deps } from "../deps.ts";
import { ACCOUNT_FILES, printMounts, type ContainerToRun } from "./mounts.ts";
import { cgroupName, type PodPaths } from "./paths.ts";
import { parseBytes } from "./quantity.ts";
import { parseIdentity, readExitCode } from "./record-files.ts";
import { runProgram } from "../run-program.ts";

const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** What is reported of a container whose end nobody saw. Source: Kubernetes "ContainerStatusUnknown". */
const EXIT_CODE_UNKNOWN = 137;

/** How far a container is. */
export type ContainerState =
  | { readonly kind: "absent" }
  | { readonly kind: "starting"; readonly shim: ProcessName }
  | { readonly kind: "running"; readonly init: ProcessName }
  | { readonly kind: "exited"; readonly exitCode: number };

async function findProcess(
  deps: Deps,
  path: string,
): Promise<{ readonly name: ProcessName; readonly isRunning: boolean } | undefined> {
  const name = parseIdentity(await deps.files.readText(path), deps.bootId);
  return name === undefined ? undefined : { name, isRunning: await isRunning(name) };
}

/** Reads how far a container is, and has the pod woken when that changes. */
export async function observeContainer(
  deps: Deps,
  uid: string,
  bundle: string,
): Promise<ContainerState> {
  if (!(await deps.files.exists(join(bundle, "mounts")))) return { kind: "absent" };
  deps.ends.watchDirectory(uid, bundle);
  const shim = await findProcess(deps, join(bundle, "shim"));
  const init = await findProcess(deps, join(bundle, "pid"));
  // Asked last: who had ended before has written it by now.
  const exitCode = await readExitCode(deps.files, join(bundle, "exit"));
  if (exitCode !== undefined) return { kind: "exited", exitCode };
  if (init?.isRunning === true) {
    deps.ends.watchProcess(uid, init.name);
    return { kind: "running", init: init.name };
  }
  if (shim?.isRunning === true) {
    deps.ends.watchProcess(uid, shim.name);
    return { kind: "starting", shim: shim.name };
  }
  const wasStarted = await deps.files.exists(join(bundle, "pid"));
  return wasStarted ? { kind: "exited", exitCode: EXIT_CODE_UNKNOWN } : { kind: "absent" };
}

function userOf(pod: Pod, container: Container): readonly [user: number, group: number] {
  const own = container.securityContext;
  const shared = pod.spec.securityContext;
  const user = own?.runAsUser ?? shared?.runAsUser ?? 0;
  if (user === 0) {
    const reason = "a container must run as a user other than root: set securityContext.runAsUser";
    throw new AppError("RUNTIME_POD_FAILED", { pod: pod.metadata.name, reason });
  }
  return [user, own?.runAsGroup ?? shared?.runAsGroup ?? user];
}

function programOf({ container, image, pod }: ContainerToRun): readonly string[] {
  const command = container.command ?? image.entrypoint;
  if (command.length === 0) {
    const reason = `container ${container.name} has no command, and its image names none`;
    throw new AppError("RUNTIME_POD_FAILED", { pod: pod.metadata.name, reason });
  }
  const env = (container.env ?? []).map(({ name, value }) => `${name}=${value}`);
  const hostname = `HOSTNAME=${pod.metadata.name}`;
  return ["env", "-i", `PATH=${PATH}`, hostname, ...env, ...command, ...(container.args ?? [])];
}

async function writeAccounts(deps: Deps, run: ContainerToRun): Promise<void> {
  const [user, group] = userOf(run.pod, run.container);
  const ip = run.pod.status?.podIP ?? "127.0.1.1";
  const texts: Readonly<Record<string, string>> = {
    group: `root:x:0:\nlauncher:x:${String(group)}:\n`,
    hosts: `127.0.0.1\tlocalhost\n::1\tlocalhost\n${ip}\t${run.pod.metadata.name}\n`,
    passwd: `root:x:0:0::/:/usr/sbin/nologin\nlauncher:x:${String(user)}:${String(group)}::/tmp:/usr/sbin/nologin\n`,
  };
  for (const file of ACCOUNT_FILES) {
    await deps.files.writeAtomic(join(run.bundle, file), texts[file] ?? "");
  }
}

/** Starts a container that is absent. Started twice, the second shim ends without doing anything. */
export async function startContainer(deps: Deps, uid: string, run: ContainerToRun): Promise<void> {
  const { bundle, container, paths, pod } = run;
  const [user, group] = userOf(pod, container);
  const program = programOf(run);
  const mounts = printMounts(run);
  const memory = parseBytes(container.resources?.limits?.["memory"]) ?? 0;
  await deps.files.ensureDirectory(bundle);
  await writeAccounts(deps, run);
  await deps.files.writeAtomic(join(bundle, "mounts"), mounts);
  deps.ends.watchDirectory(uid, bundle);
  await startDetached({
    argv: [
      join(deps.directories.libexec, "pod-shim"),
      ...[bundle, cgroupName(uid, container.name), String(memory), paths.netns],
      ...[pod.metadata.name.slice(0, 63), String(user), String(group)],
      ...program,
    ],
    env: { PATH },
    outFile: join(bundle, "out"),
    logFile: join(bundle, "log"),
  });
}

/** Asks a container to end. */
export async function terminateContainer(state: ContainerState): Promise<void> {
  if (state.kind === "running") await signalProcess(state.init, "SIGTERM");
}

/** Ends a container at once and removes its control group. */
export async function removeContainer(deps: Deps, uid: string, container: string): Promise<void> {
  const program = join(deps.directories.libexec, "pod-cgroup");
  await runProgram(deps.runner, program, "remove", cgroupName(uid, container));
}

/** Names of the containers that were ever begun. */
export function listContainers(deps: Deps, paths: PodPaths): Promise<readonly string[]> {
  return deps.files.list(paths.containers);
}
