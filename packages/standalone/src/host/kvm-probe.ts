// SPDX-License-Identifier: Apache-2.0
// Does a Linux guest really boot under KVM here? The device alone says nothing: nested KVM can exist and hang.
import { join } from "node:path";
import { isAppError, messageOf } from "@patchbay/core";
import type { Files, ProcessRunner } from "@patchbay/ports";
import { readFields, textOf } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

/** A guest that needs longer than this under KVM does not boot, milliseconds. */
const BOOT_TIMEOUT_MS = 15_000;
const STAT_TIMEOUT_MS = 5000;
/** What the guest's init prints. Source: hack/guest/init. */
const GUEST_READY = "guest ready";
/** Characters of QEMU's last words that are shown. */
const REASON_MAX = 100;
const DEVICE = "/dev/kvm";

/** What guests run under, and why. */
export interface KvmFinding {
  readonly useEmulation: boolean;
  /** For a person. */
  readonly why: string;
}

/** Where a guest is tried, and where the answer is kept until the host starts anew. */
export interface ProbeDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly paths: Paths;
  readonly bootId: string;
  /** As Node.js says: `x64` or `arm64`. */
  readonly architecture: string;
}

interface Kernel {
  readonly kernel: string;
  readonly initrd: string;
}

async function findKernel({ files, paths }: ProbeDeps): Promise<Kernel | undefined> {
  for (const name of await files.list(paths.images)) {
    const kernel = join(paths.images, name, "vmlinuz");
    const initrd = join(paths.images, name, "initrd");
    if ((await files.exists(kernel)) && (await files.exists(initrd))) return { kernel, initrd };
  }
  return undefined;
}

/** Device, inode, size and time of both files: another kernel is another question. */
async function identify({ runner }: ProbeDeps, { kernel, initrd }: Kernel): Promise<string> {
  const argv = ["stat", "-Lc", "%d:%i:%s:%Y", kernel, initrd] as const;
  const { stdout } = await runner.run({ argv, timeoutMs: STAT_TIMEOUT_MS });
  return stdout.trim().replaceAll("\n", " ");
}

const MACHINES: Readonly<
  Record<string, readonly [program: string, machine: string, console: string]>
> = {
  x64: ["qemu-system-x86_64", "q35", "ttyS0"],
  arm64: ["qemu-system-aarch64", "virt", "ttyAMA0"],
};

function commandFor(
  architecture: string,
  { kernel, initrd }: Kernel,
): readonly [string, ...string[]] {
  const [program, machine, console] = MACHINES[architecture] ?? [
    "qemu-system-x86_64",
    "q35",
    "ttyS0",
  ];
  return [
    program,
    ...["-accel", "kvm", "-machine", machine, "-cpu", "host", "-m", "128"],
    ...["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"],
    ...["-kernel", kernel, "-initrd", initrd, "-append", `console=${console} quiet panic=-1`],
  ];
}

/** Boots it; resolves with undefined when it was ready, else with the reason. */
async function bootGuest(deps: ProbeDeps, kernel: Kernel): Promise<string | undefined> {
  const booted = new AbortController();
  let said = "";
  try {
    const { exitCode, stderr } = await deps.runner.run({
      argv: commandFor(deps.architecture, kernel),
      timeoutMs: BOOT_TIMEOUT_MS,
      signal: booted.signal,
      onOutput: (text) => {
        said = (said + text).slice(-2 * GUEST_READY.length - text.length);
        if (said.includes(GUEST_READY)) booted.abort(new Error("the guest is ready"));
      },
    });
    const reason = (stderr.trim().split("\n").at(-1) ?? "").slice(0, REASON_MAX);
    return `QEMU ended with ${String(exitCode)}${reason === "" ? "" : `: ${reason}`}`;
  } catch (error) {
    if (booted.signal.aborted) return undefined;
    if (isAppError(error, "OS_TIMED_OUT")) return "a guest did not boot within 15 s";
    return messageOf(error);
  }
}

/** Asks once for each boot and kernel; the answer is kept. */
export async function probeKvm(deps: ProbeDeps): Promise<KvmFinding> {
  const { files, paths, bootId } = deps;
  if (!(await files.exists(DEVICE))) {
    return { useEmulation: true, why: `there is no ${DEVICE}: guests are emulated in software` };
  }
  const kernel = await findKernel(deps);
  if (kernel === undefined) {
    const why = `no image has vmlinuz and initrd to try KVM with: guests are emulated in software until the next start with one`;
    return { useEmulation: true, why };
  }
  const cache = join(paths.run, "kvm-probe.json");
  const identity = await identify(deps, kernel);
  const known = await readFields(files, cache);
  if (textOf(known, "bootId") === bootId && textOf(known, "identity") === identity) {
    return { useEmulation: known?.["useEmulation"] === true, why: textOf(known, "why") };
  }
  const problem = await bootGuest(deps, kernel);
  const finding: KvmFinding =
    problem === undefined
      ? { useEmulation: false, why: "a guest boots under KVM: guests use it" }
      : {
          useEmulation: true,
          why: `KVM does not work (${problem}): guests are emulated in software`,
        };
  await files.writeAtomic(cache, `${JSON.stringify({ bootId, identity, ...finding })}\n`);
  return finding;
}
