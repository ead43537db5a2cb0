// SPDX-License-Identifier: Apache-2.0
// Launcher pods with a tenant's disk: from an image, or from a volume that the tenant's program filled.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { names } from "@patchbay/api";
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { type RuntimeMachine } from "../../contract/node-runtime/machine.ts";
import { addImage, scriptPod } from "../containers/pod-machine.ts";

const MIB = 1 << 20;
/** Limit of image bytes visible to a guest. */
export const LIMIT = 64 * MIB;
/** Limit of an image disk's copy, MiB. */
export const COPY_MIB = 16;

const TOOLS = { name: "tools", mountPath: "/patchbay/bin" };
const VOLUME = { name: "root", mountPath: "/run/volumes/root" };
const DISKS = { name: "disks", mountPath: "/run/disks" };
const OUT = { name: "out", mountPath: "/out" };

type InitContainer = Pick<Container, "name" | "image" | "command" | "volumeMounts">;

/** Init containers that run in order, then the script. */
function podOf(name: string, initContainers: readonly InitContainer[], script: string): object {
  const limits = { memory: "256Mi" };
  const complete = initContainers.map((container) => ({
    imagePullPolicy: "IfNotPresent" as const,
    terminationMessagePolicy: "FallbackToLogsOnError" as const,
    resources: { limits },
    ...container,
  }));
  const compute = {
    name: "compute",
    image: names.LAUNCHER_IMAGE,
    imagePullPolicy: "IfNotPresent" as const,
    command: ["/bin/sh", "-c", script],
    volumeMounts: [VOLUME, DISKS, OUT],
  };
  const change: Partial<Pod["spec"]> = {
    initContainers: complete,
    containers: [compute],
    volumes: [
      { name: "tools", emptyDir: {} },
      { name: "root", emptyDir: { sizeLimit: `${String(COPY_MIB)}Mi` } },
      { name: "disks", emptyDir: {} },
      { name: "out", emptyDir: {} },
    ],
  };
  return scriptPod(name, "", change);
}

/** A pod with a disk of that image, like virt-controller's; `script` runs when its disk is ready. */
export function imagePod(name: string, image: string, script: string): object {
  const launcher = names.LAUNCHER_IMAGE;
  const command = ["prepare-disks", "overlay", "root", "/run/disks/root.qcow2"];
  const containers: readonly InitContainer[] = [
    {
      name: "copy-files",
      image: launcher,
      command: ["/usr/bin/copy-files", "--self", TOOLS.mountPath],
      volumeMounts: [TOOLS],
    },
    {
      name: "copy-root",
      image,
      command: [`${TOOLS.mountPath}/copy-files`, "--disk", VOLUME.mountPath],
      volumeMounts: [{ ...TOOLS, readOnly: true }, VOLUME],
    },
    {
      name: "prepare-disks",
      image: launcher,
      command: [...command, `${VOLUME.mountPath}/disk`, String(LIMIT)],
      volumeMounts: [{ ...VOLUME, readOnly: true }, DISKS],
    },
  ];
  return podOf(name, containers, script);
}

/** A pod whose claim was filled by a tenant's script in the claim's directory. */
export function claimPod(name: string, fill: string): object {
  const launcher = names.LAUNCHER_IMAGE;
  const file = `${VOLUME.mountPath}/disk.img`;
  const containers: readonly InitContainer[] = [
    {
      name: "tenant",
      image: launcher,
      command: ["/bin/sh", "-c", `cd ${VOLUME.mountPath} && ${fill}`],
      volumeMounts: [VOLUME],
    },
    {
      name: "prepare-disks",
      image: launcher,
      command: ["prepare-disks", "file", "data", file, String(LIMIT), "make"],
      volumeMounts: [VOLUME, DISKS],
    },
  ];
  return podOf(name, containers, "true");
}

/** The failed container's output, or the reason for the eviction; nothing ran afterwards. */
export async function whyFailed(machine: RuntimeMachine, name: string): Promise<string> {
  const { status } = await machine.inPhase(name, "Failed");
  const ended = status?.initContainerStatuses?.map(({ state }) => state.terminated);
  const failed = ended?.filter((each) => each !== undefined && each.exitCode !== 0) ?? [];
  const ran = status?.containerStatuses?.filter(({ state }) => state.waiting === undefined) ?? [];
  if (status?.reason === "Evicted" && ran.length === 0) return status.message ?? "";
  if (failed.length !== 1 || ran.length > 0) throw new Error(JSON.stringify(status));
  return failed[0]?.message ?? "";
}

/** Imports an image with one file, or with the output of `make` at its path. */
export async function addDiskImage(
  machine: RuntimeMachine,
  image: { readonly name: string; readonly path: string },
  make: Buffer | ((path: string) => void),
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-disk-"));
  try {
    // As the users read it for whom the copy runs.
    chmodSync(directory, 0o755);
    const parent = join(directory, dirname(image.path));
    mkdirSync(parent, { recursive: true });
    const path = join(parent, basename(image.path));
    if (typeof make === "function") make(path);
    else writeFileSync(path, make);
    await addImage(machine, image.name, directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
