// SPDX-License-Identifier: Apache-2.0
// Does a guest boot? Tried in a container of the launchers' image, with the kernel of an image of the machine.
import { join } from "node:path";
import { names } from "@patchbay/api";
import { createImageViews, ctr, listImages, type ContainerdLayout } from "@patchbay/containerd";
import { isAppError, messageOf } from "@patchbay/core";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import type { Paths } from "../data-dir/paths.ts";
import { cgroupRootOf, containerdLayoutOf } from "./own-containerd.ts";

/** What the guest's init prints. Source: hack/guest/small/init. */
const GUEST_READY = "guest ready";
/** Characters of QEMU's last words that are shown. */
const REASON_MAX = 100;
/** Name of the container. */
const CONTAINER = "guest-trial";
const KERNEL = "vmlinuz";
const INITRD = "initrd";

/** The machine whose containerd runs. */
export interface TrialDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly paths: Paths;
}

/** An image that a guest can be booted from. */
export interface BootImage {
  /** Whole reference. */
  readonly name: string;
  readonly digest: string;
}

/** How the guest is run. */
export interface Trial {
  readonly accelerator: "kvm" | "tcg";
  /** As Node.js says: `x64` or `arm64`. */
  readonly architecture: string;
  readonly timeoutMs: number;
}

const MACHINES: Readonly<
  Record<string, readonly [program: string, machine: string, console: string]>
> = {
  x64: ["qemu-system-x86_64", "q35", "ttyS0"],
  arm64: ["qemu-system-aarch64", "virt", "ttyAMA0"],
};
const DEFAULT_MACHINE = ["qemu-system-x86_64", "q35", "ttyS0"] as const;

function qemuOf({ architecture, accelerator }: Trial): readonly string[] {
  const [program, machine, console] = MACHINES[architecture] ?? DEFAULT_MACHINE;
  const cpu = accelerator === "kvm" ? "host" : "max";
  return [
    program,
    "-accel",
    accelerator,
    "-machine",
    machine,
    "-cpu",
    cpu,
    "-m",
    "128",
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-no-reboot",
    "-serial",
    "stdio",
    "-kernel",
    `/guest/${KERNEL}`,
    "-initrd",
    `/guest/${INITRD}`,
    "-append",
    `console=${console} quiet panic=-1`,
  ];
}

function containerFlags(layout: ContainerdLayout, paths: Paths, view: string): readonly string[] {
  return [
    "--fifo-dir",
    join(layout.state, "fifo"),
    "--runc-root",
    layout.runcRoot,
    "--cgroup",
    `${cgroupRootOf(paths)}/${CONTAINER}`,
    "--seccomp",
    "--read-only",
    "--mount",
    `type=bind,src=${view},dst=/guest,options=rbind:ro`,
  ];
}

function viewOf({ run }: Paths): string {
  return join(run, "guest-trial");
}

/** Images that may have a kernel: all but those that every pod needs. */
export async function listBootImages(deps: TrialDeps): Promise<readonly BootImage[]> {
  const images = await listImages({ ...deps, layout: containerdLayoutOf(deps.paths) });
  const own: readonly string[] = [names.PAUSE_IMAGE, names.LAUNCHER_IMAGE];
  return images.filter(({ name }) => !own.includes(name));
}

/** Runs `use` while the image's files are shown, when a kernel and an initrd are among them; else undefined. */
async function withKernel<T>(
  deps: TrialDeps,
  image: BootImage,
  use: (view: string) => Promise<T>,
): Promise<T | undefined> {
  const { files, paths } = deps;
  const view = viewOf(paths);
  const views = createImageViews({ ...deps, layout: containerdLayoutOf(paths) });
  await files.ensureDirectory(view);
  try {
    await views.release(view); // of a supervisor that died meanwhile
    await views.show(image.name, view);
    const isBootable =
      (await files.exists(join(view, KERNEL))) && (await files.exists(join(view, INITRD)));
    return isBootable ? await use(view) : undefined;
  } finally {
    await views.release(view);
    await files.remove(view);
  }
}

/** Whatever was left of the container; nothing is success. */
async function removeContainer(deps: TrialDeps): Promise<void> {
  const access = { ...deps, layout: containerdLayoutOf(deps.paths) };
  for (const args of [
    ["tasks", "delete", "--force", CONTAINER],
    ["containers", "delete", CONTAINER],
  ]) {
    await ctr(access, args).catch(() => undefined);
  }
}

/** Boots a guest; resolves with undefined when it was ready, else with the reason. */
async function boot(deps: TrialDeps, trial: Trial, view: string): Promise<string | undefined> {
  const layout = containerdLayoutOf(deps.paths);
  const device = trial.accelerator === "kvm" ? ["--device", "/dev/kvm"] : [];
  const flags = [...containerFlags(layout, deps.paths, view), ...device];
  const booted = new AbortController();
  let said = "";
  await removeContainer(deps);
  try {
    const args = ["run", "--rm", ...flags, names.LAUNCHER_IMAGE, CONTAINER, ...qemuOf(trial)];
    await ctr({ ...deps, layout }, args, {
      timeoutMs: trial.timeoutMs,
      signal: booted.signal,
      onOutput: (text) => {
        said = (said + text).slice(-2 * GUEST_READY.length - text.length);
        if (said.includes(GUEST_READY)) booted.abort(new Error("the guest is ready"));
      },
    });
    return "QEMU ended";
  } catch (error) {
    if (booted.signal.aborted) return undefined;
    if (isAppError(error, "OS_TIMED_OUT"))
      return `a guest did not boot within ${String(trial.timeoutMs / 1000)} s`;
    return messageOf(error).slice(0, REASON_MAX);
  } finally {
    await removeContainer(deps);
  }
}

/** How a trial came out. */
export interface TrialResult {
  /** Absent: the guest was ready. */
  readonly problem?: string;
}

/** Tries the image; undefined when it has no kernel. The launchers' image must be there. */
export async function tryGuest(
  deps: TrialDeps,
  image: BootImage,
  trial: Trial,
): Promise<TrialResult | undefined> {
  return withKernel(deps, image, async (view) => {
    const problem = await boot(deps, trial, view);
    return problem === undefined ? {} : { problem };
  });
}
