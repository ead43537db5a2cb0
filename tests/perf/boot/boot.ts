// SPDX-License-Identifier: Apache-2.0
// Time from `kubectl apply` to the guest's first line and to its login prompt, by boot source, compared with QEMU
// started by hand on the same disk.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { diskVmManifest, eventually, fillClaim, vmManifest, type Machine } from "@patchbay/support";
import { bootByHand } from "./by-hand.ts";
import { LOGIN, type BootTimes } from "./boot-times.ts";
import { growDisk } from "./large-disk.ts";
import { printTable } from "../report.ts";
import { withMachine } from "../standalone-machine.ts";

const ROOT = join(import.meta.dirname, "../../..");
const DEBIAN = join(ROOT, ".cache/guest-debian/debian.qcow2");
const BOOT_MS = 600_000;

interface Setting {
  readonly label: string;
  /** Evidence of the login prompt. */
  readonly login: RegExp;
  readonly manifest: (name: string) => unknown;
}

function fromDisk(label: string, volume: Readonly<Record<string, unknown>>): Setting {
  const manifest = (name: string): unknown =>
    diskVmManifest({ name, disks: [{ name: "root", volume }] });
  return { label, login: LOGIN, manifest };
}

const CLAIM = "boot-root";

const SETTINGS: readonly Setting[] = [
  {
    label: "kernelBoot, small guest",
    login: /guest ready/,
    manifest: (name) => vmManifest({ name }),
  },
  fromDisk("containerDisk, 100 MB", { containerDisk: { image: "debian" } }),
  fromDisk("containerDisk, 2 GB", { containerDisk: { image: "debian-large" } }),
  fromDisk("claim", { persistentVolumeClaim: { claimName: CLAIM } }),
];

function hasConsole(machine: Machine, name: string): boolean {
  const uids = Object.keys(machine.findVmi(name)?.status?.activePods ?? {});
  return uids.length > 0 && existsSync(machine.launcherDir(name));
}

async function measureStart(machine: Machine, { login, manifest }: Setting): Promise<BootTimes> {
  const started = performance.now();
  // A unique name, so that the previous one's leftovers do not matter.
  const name = `boot-${String(Date.now())}`;
  machine.apply(manifest(name));
  try {
    await eventually(() => hasConsole(machine, name), { withinMs: BOOT_MS });
    const console = machine.console(name);
    const options = { timeoutMs: BOOT_MS, fromStart: true };
    await console.waitForLine(/\S/, options);
    const firstLine = performance.now() - started;
    await console.waitForLine(login, options);
    return { firstLine, login: performance.now() - started };
  } finally {
    machine.kubectl("delete", "vm", name, "--wait=true");
    machine.kubectl("wait", "--for=delete", `vmi/${name}`, "--timeout=120s");
  }
}

async function prepare(machine: Machine, directory: string): Promise<void> {
  const large = join(directory, "large.img");
  growDisk(DEBIAN, large);
  machine.patchbay("image", "add", "debian", DEBIAN);
  machine.patchbay("image", "add", "debian-large", large);
  rmSync(large);
  await fillClaim(machine, { claim: CLAIM, image: "debian" });
}

async function measureRounds(machine: Machine, rounds: number): Promise<void> {
  const measured = new Map<string, BootTimes[]>();
  const note = (label: string, times: BootTimes): void => {
    measured.set(label, [...(measured.get(label) ?? []), times]);
  };
  for (let round = 1; round <= rounds; round += 1) {
    for (const setting of SETTINGS) {
      process.stderr.write(`round ${String(round)}: ${setting.label}\n`);
      note(setting.label, await measureStart(machine, setting));
    }
    process.stderr.write(`round ${String(round)}: by hand\n`);
    note("qemu-system by hand, the same disk", await bootByHand(DEBIAN, BOOT_MS));
  }
  for (const part of ["firstLine", "login"] as const) {
    const title = part === "firstLine" ? "first line, ms since apply" : "login, ms since apply";
    printTable(
      title,
      [...measured].map(([label, times]) => ({ label, values: times.map((each) => each[part]) })),
    );
  }
}

/** Prints the duration of `rounds` starts of each kind. */
export async function measureBoots(rounds: number): Promise<void> {
  execFileSync(join(ROOT, "hack/guest/make-debian"), [join(ROOT, ".cache/guest-debian")], {
    stdio: "inherit",
  });
  const directory = mkdtempSync(join(tmpdir(), "patchbay-boot-"));
  try {
    await withMachine(async (machine) => {
      await prepare(machine, directory);
      await measureRounds(machine, rounds);
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}
