// SPDX-License-Identifier: Apache-2.0
// A machine for a tenant's pods and images.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { archiveDirectory, fullReference, importImage } from "@patchbay/containerd";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import {
  launcherPod,
  RuntimeMachine,
  shellContainer,
} from "../../contract/node-runtime/machine.ts";

/** Time to build the launcher image if it is missing. */
export const IMAGES_MS = 300_000;
/** Output file of a pod of {@link scriptPod}. */
const OUT = "/out";
const COMPILE = resolve(import.meta.dirname, "../../../hack/images/compile-static");

/** A pod that runs a script in the launcher image as a launchers' user; `/out` is a volume. */
export function scriptPod(name: string, script: string, change: Partial<Pod["spec"]> = {}): object {
  const volumeMounts = [{ name: "out", mountPath: OUT }];
  return launcherPod(name, {
    containers: [{ ...shellContainer(script), volumeMounts }],
    volumes: [{ name: "out", emptyDir: {} }],
    ...change,
  });
}

/** The file that the pod wrote to its volume `out`, once it succeeded. */
export async function readOut(machine: RuntimeMachine, pod: string, file: string): Promise<string> {
  const { metadata } = await machine.inPhase(pod, "Succeeded");
  const volumes = join(machine.path("pods", metadata.uid ?? ""), names.EMPTY_DIR_VOLUMES);
  return readFileSync(join(volumes, "out", file), "utf8");
}

/** Why a pod was rejected or did not start: all messages of its status. Fails if anything of it ran. */
export async function findStartFailure(machine: RuntimeMachine, name: string): Promise<string> {
  return eventually(
    async () => {
      const { status } = (await machine.pod(name)) ?? {};
      const states = [
        ...(status?.initContainerStatuses ?? []),
        ...(status?.containerStatuses ?? []),
      ];
      if (states.some(({ state }) => state.running !== undefined)) throw new Error("it runs");
      const text = states.map(({ state }) => state.waiting?.message ?? state.terminated?.message);
      const output = [status?.message, ...text].filter((each) => each !== undefined).join("; ");
      if (output === "") throw new Error("nobody has said anything");
      return output;
    },
    { withinMs: 20_000 },
  );
}

/** Compiles a static program from one C file; the caller removes its directory. */
export function compileProgram(source: string): string {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-attack-"));
  execFileSync(COMPILE, [source, join(directory, "program")]);
  return directory;
}

/** Imports an image of a directory's files, like `patchbay image add`. */
export async function addImage(
  { containerd }: RuntimeMachine,
  name: string,
  source: string,
): Promise<void> {
  const files = createFiles();
  const runner = createProcessRunner();
  const parent = mkdtempSync(join(tmpdir(), "patchbay-attack-"));
  try {
    const workDirectory = join(parent, "image");
    const architecture = process.arch === "arm64" ? "arm64" : "amd64";
    const archive = await archiveDirectory(
      { files, runner },
      { source, workDirectory, architecture },
    );
    const deps = { clock: createClock(), files, runner, layout: containerd.layout };
    await importImage(deps, { archive, id: name }, fullReference(name));
  } finally {
    rmSync(parent, { recursive: true });
  }
}

/** A machine with the image `attacker`, whose only file is the compiled probe.c. */
export interface ProbedMachine {
  readonly machine: RuntimeMachine;
  /** The path of `program` on the machine itself. */
  readonly directory: string;
  close(): Promise<void>;
}

export async function startProbedMachine(): Promise<ProbedMachine> {
  const directory = compileProgram(join(import.meta.dirname, "probe.c"));
  const machine = await RuntimeMachine.start();
  await addImage(machine, "attacker", directory);
  const close = async (): Promise<void> => {
    rmSync(directory, { recursive: true });
    await machine.close();
  };
  return { machine, directory, close };
}
