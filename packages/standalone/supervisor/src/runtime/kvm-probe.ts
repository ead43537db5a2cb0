// SPDX-License-Identifier: Apache-2.0
// Boots a guest to decide whether guests can use KVM, because a guest can hang under nested KVM.
import { join } from "node:path";
import { names } from "@patchbay/api";
import { createImageMounts, ctr, listImages, type ContainerdLayout } from "@patchbay/containerd";
import { isAppError, messageOf } from "@patchbay/base";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import type { Paths } from "../data-dir/paths.ts";
import { buildCgroupRoot, buildContainerdLayout } from "./own-containerd.ts";
import type { JsonObject } from "@patchbay/api/json";
import { readFields, readText } from "../data-dir/json.ts";

/** Text that the guest prints when it has booted. Source: hack/guest/small/init. */
const GUEST_READY = "guest ready";
const REASON_LENGTH_MAX = 100;
const TRIAL_CONTAINER = "guest-trial";
const KERNEL_FILE = "vmlinuz";
const INITRD_FILE = "initrd";

/** Dependencies for booting a test guest. The caller must have started containerd. */
interface TrialDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly paths: Paths;
}

interface BootImage {
  readonly name: string;
  readonly digest: string;
}

interface TrialOptions {
  readonly accelerator: "kvm" | "tcg";
  /** CPU architecture in the notation of Node.js, `x64` or `arm64`. */
  readonly architecture: string;
  readonly timeoutMs: number;
}

const QEMU_MACHINES: Readonly<
  Record<string, readonly [program: string, machine: string, console: string]>
> = {
  x64: ["qemu-system-x86_64", "q35", "ttyS0"],
  arm64: ["qemu-system-aarch64", "virt", "ttyAMA0"],
};
const DEFAULT_MACHINE = ["qemu-system-x86_64", "q35", "ttyS0"] as const;

function buildQemuCommand({ architecture, accelerator }: TrialOptions): readonly string[] {
  const [program, machine, console] = QEMU_MACHINES[architecture] ?? DEFAULT_MACHINE;
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
    `/guest/${KERNEL_FILE}`,
    "-initrd",
    `/guest/${INITRD_FILE}`,
    "-append",
    `console=${console} quiet panic=-1`,
  ];
}

function containerFlags(
  layout: ContainerdLayout,
  paths: Paths,
  mountPoint: string,
): readonly string[] {
  return [
    "--fifo-dir",
    join(layout.state, "fifo"),
    "--runc-root",
    layout.runcRoot,
    "--cgroup",
    `${buildCgroupRoot(paths)}/${TRIAL_CONTAINER}`,
    "--seccomp",
    "--read-only",
    "--mount",
    `type=bind,src=${mountPoint},dst=/guest,options=rbind:ro`,
  ];
}

function buildMountPoint({ run }: Paths): string {
  return join(run, "guest-trial");
}

/** Lists images that may contain a kernel. Excludes the machine's own images. */
export async function listBootImages(deps: TrialDeps): Promise<readonly BootImage[]> {
  const images = await listImages({ ...deps, layout: buildContainerdLayout(deps.paths) });
  const systemImages: readonly string[] = [names.PAUSE_IMAGE, names.LAUNCHER_IMAGE];
  return images.filter(({ name }) => !systemImages.includes(name));
}

/** Mounts the image and calls `use`. Returns undefined if the image contains no kernel or no initrd. */
async function withKernel<T>(
  deps: TrialDeps,
  image: BootImage,
  use: (mountPoint: string) => Promise<T>,
): Promise<T | undefined> {
  const { files, paths } = deps;
  const mountPoint = buildMountPoint(paths);
  const mounts = createImageMounts({ ...deps, layout: buildContainerdLayout(paths) });
  await files.ensureDirectory(mountPoint);
  try {
    await mounts.unmount(mountPoint); // A supervisor that crashed may have left a mount.
    await mounts.mount(image.name, mountPoint);
    const isBootable =
      (await files.exists(join(mountPoint, KERNEL_FILE))) &&
      (await files.exists(join(mountPoint, INITRD_FILE)));
    return isBootable ? await use(mountPoint) : undefined;
  } finally {
    await mounts.unmount(mountPoint);
    await files.remove(mountPoint);
  }
}

async function removeContainer(deps: TrialDeps): Promise<void> {
  const access = { ...deps, layout: buildContainerdLayout(deps.paths) };
  for (const args of [
    ["tasks", "delete", "--force", TRIAL_CONTAINER],
    ["containers", "delete", TRIAL_CONTAINER],
  ]) {
    await ctr(access, args).catch(() => undefined);
  }
}

/** Runs a guest until it is ready. Returns undefined on success, otherwise the reason for the failure. */
async function runGuest(
  deps: TrialDeps,
  options: TrialOptions,
  mountPoint: string,
): Promise<string | undefined> {
  const layout = buildContainerdLayout(deps.paths);
  const device = options.accelerator === "kvm" ? ["--device", "/dev/kvm"] : [];
  const flags = [...containerFlags(layout, deps.paths, mountPoint), ...device];
  const readiness = new AbortController();
  let output = "";
  await removeContainer(deps);
  try {
    const args = [
      "run",
      "--rm",
      ...flags,
      names.LAUNCHER_IMAGE,
      TRIAL_CONTAINER,
      ...buildQemuCommand(options),
    ];
    await ctr({ ...deps, layout }, args, {
      timeoutMs: options.timeoutMs,
      signal: readiness.signal,
      onOutput: (text) => {
        output = (output + text).slice(-2 * GUEST_READY.length - text.length);
        if (output.includes(GUEST_READY)) readiness.abort(new Error("the guest is ready"));
      },
    });
    return "QEMU ended";
  } catch (error) {
    if (readiness.signal.aborted) return undefined;
    if (isAppError(error, "OS_TIMED_OUT"))
      return `a guest did not boot within ${String(options.timeoutMs / 1000)} s`;
    return messageOf(error).slice(0, REASON_LENGTH_MAX);
  } finally {
    await removeContainer(deps);
  }
}

interface TrialResult {
  readonly problem?: string;
}

/** Boots a guest from the image. Returns undefined if the image has no kernel or no initrd. The launcher image must exist. */
export async function bootGuest(
  deps: TrialDeps,
  image: BootImage,
  options: TrialOptions,
): Promise<TrialResult | undefined> {
  return withKernel(deps, image, async (mountPoint) => {
    const problem = await runGuest(deps, options, mountPoint);
    return problem === undefined ? {} : { problem };
  });
}

const BOOT_TIMEOUT_MS = 15_000;
const KVM_DEVICE = "/dev/kvm";

export interface KvmFinding {
  readonly useEmulation: boolean;
  readonly reason: string;
}

interface ProbeDeps extends TrialDeps {
  readonly bootId: string;
  readonly architecture: string;
  readonly launcherImage: () => Promise<void>;
}

function findCached(
  cached: JsonObject | undefined,
  bootId: string,
  images: readonly BootImage[],
): KvmFinding | undefined {
  if (readText(cached, "bootId") !== bootId) return undefined;
  if (!images.some(({ digest }) => digest === readText(cached, "digest"))) return undefined;
  return { useEmulation: cached?.["useEmulation"] === true, reason: readText(cached, "why") };
}

function toFinding(problem: string | undefined): KvmFinding {
  return problem === undefined
    ? { useEmulation: false, reason: "a guest boots under KVM: guests use KVM" }
    : {
        useEmulation: true,
        reason: `KVM does not work (${problem}): guests are emulated in software`,
      };
}

/** Returns whether guests can use KVM. Caches the result until the host reboots or the image with which it was tested is removed. */
export async function probeKvm(deps: ProbeDeps): Promise<KvmFinding> {
  const { files, paths, bootId, architecture } = deps;
  if (!(await files.exists(KVM_DEVICE))) {
    return {
      useEmulation: true,
      reason: `there is no ${KVM_DEVICE}: guests are emulated in software`,
    };
  }
  const cacheFile = join(paths.run, "kvm-probe.json");
  const images = await listBootImages(deps);
  const cached = findCached(await readFields(files, cacheFile), bootId, images);
  if (cached !== undefined) return cached;
  await deps.launcherImage();
  const options = { accelerator: "kvm", architecture, timeoutMs: BOOT_TIMEOUT_MS } as const;
  for (const image of images) {
    const trialResult = await bootGuest(deps, image, options);
    if (trialResult === undefined) continue;
    const finding = toFinding(trialResult.problem);
    const { digest } = image;
    const { useEmulation, reason } = finding;
    await files.writeAtomic(
      cacheFile,
      `${JSON.stringify({ bootId, digest, useEmulation, why: reason })}\n`,
    );
    return finding;
  }
  const reason = `no image contains vmlinuz and initrd for the KVM test: guests are emulated in software until the next start`;
  return { useEmulation: true, reason };
}
