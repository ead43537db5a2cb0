// SPDX-License-Identifier: Apache-2.0
// A launcher in a container of its own, made by the node runtime's shim alone, and the guest image.
import { execFile, execFileSync, spawn } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { eventually, openGuestConsole, type GuestConsole } from "@patchbay/testing";

const run = promisify(execFile);
const root = resolve(import.meta.dirname, "../../..");
const libexec = join(root, "packages/node-runtime/libexec");
const LAUNCHER_UID = 107;

/** Makes the guest image once for all runs. */
export function makeGuestImage(): string {
  const directory = join(root, ".cache/guest");
  mkdirSync(directory, { recursive: true });
  execFileSync(join(root, "hack/guest/make-image"), [directory], { stdio: "inherit" });
  return directory;
}

const DOMAIN = `<domain type='qemu'><name>vm</name><uuid>7d5b0c0e-3a53-4f0e-9d0a-2f6d3a6c1b11</uuid><memory unit='MiB'>128</memory><vcpu>1</vcpu>
  <os><type machine='q35'>hvm</type><kernel>/run/kernel-boot/vmlinuz</kernel>
    <initrd>/run/kernel-boot/initrd</initrd><cmdline>console=ttyS0 quiet</cmdline></os>
  <features><acpi/></features>
  <devices><serial type='unix'><source mode='bind' path='/run/launcher/serial0.sock'/>
    <log file='/run/launcher/serial0.log' append='off'/></serial><memballoon model='none'/></devices></domain>`;

/** A running launcher. */
export interface LauncherPod {
  /** Runs virsh against its libvirt, from outside. */
  virsh(...args: readonly string[]): Promise<string>;
  /** Defines and starts the guest. */
  start(kernel?: string): Promise<void>;
  /** Starts the guest and waits until it is ready. */
  boot(): Promise<GuestConsole>;
  /** Host pids of the processes of that name in it. */
  pids(name: string): readonly number[];
  /** Host pid of its PID 1. */
  pid(): number;
  /** How the container ended. */
  exitCode(withinMs: number): Promise<number>;
  log(): string;
  /** Ends everything and removes every trace. */
  remove(): Promise<void>;
}

function makeBundle(directory: string, guestImage: string): void {
  const volume = join(directory, "volume");
  mkdirSync(volume);
  chownSync(volume, LAUNCHER_UID, LAUNCHER_UID);
  const caller = "root:x:0:0::/:/usr/sbin/nologin\n"; // its libvirt looks up who calls
  writeFileSync(join(directory, "passwd"), `${caller}qemu:x:107:107::/:/usr/sbin/nologin\n`);
  writeFileSync(join(directory, "group"), "root:x:0:\nqemu:x:107:\n");
  writeFileSync(join(directory, "hosts"), "127.0.0.1 localhost launcher\n");
  writeFileSync(
    join(directory, "mounts"),
    [
      ["root", "/"],
      ["tmpfs", "/root", "ro,size=4k,mode=755"],
      ["bind", volume, "/run/launcher", "rw"],
      ["bind", guestImage, "/run/kernel-boot", "ro"],
      ...["hosts", "passwd", "group"].map((file) => [
        ...["bind", join(directory, file), `/etc/${file}`, "ro"],
      ]),
      ["bind", join(root, "packages/virt-launcher/bin/virt-launcher"), "/run/patchbay/init", "ro"],
      ["device", "/dev/net/tun"],
    ]
      .map((fields) => `${fields.join("\t")}\n`)
      .join(""),
  );
}

/** Starts a launcher; `graceSeconds` as the variable of that name. */
export async function startLauncher(
  guestImage: string,
  { graceSeconds = 20 }: { readonly graceSeconds?: number } = {},
): Promise<LauncherPod> {
  const directory = mkdtempSync(join(tmpdir(), "launcher-"));
  const name = directory.slice(directory.lastIndexOf("/") + 1);
  makeBundle(directory, guestImage);
  execFileSync("ip", ["netns", "add", name]);
  const program = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"];
  const ids = [String(LAUNCHER_UID), String(LAUNCHER_UID)];
  spawn(
    join(libexec, "pod-shim"),
    [
      ...[directory, name, "0", `/run/netns/${name}`, "launcher", ...ids, ...program],
      ...[`SHUTDOWN_SECONDS=${String(graceSeconds)}`, "/run/patchbay/init"],
    ],
    { detached: true, stdio: "ignore" },
  ).unref();

  const socket = join(directory, "volume/libvirt/libvirt-sock");
  const virsh = async (...args: readonly string[]): Promise<string> => {
    const uri = `qemu:///session?socket=${socket}`;
    return (await run("virsh", ["-q", "-c", uri, ...args], { timeout: 20_000 })).stdout;
  };
  const read = (file: string): string => readFileSync(join(directory, file), "utf8").trim();
  const pid = (): number => Number(read("pid").split(" ")[0]);
  const consoles: GuestConsole[] = [];
  const start = async (kernel = "vmlinuz"): Promise<void> => {
    const xml = join(directory, "domain.xml");
    writeFileSync(xml, DOMAIN.replace("vmlinuz", kernel));
    await virsh("define", xml);
    await virsh("start", "vm");
  };
  const pod: LauncherPod = {
    virsh,
    pid,
    log: () => read("log"),
    start,
    boot: async () => {
      await start();
      const guest = openGuestConsole({
        socketPath: join(directory, "volume/serial0.sock"),
        logPath: join(directory, "volume/serial0.log"),
      });
      consoles.push(guest);
      await guest.waitForLine(/^guest ready$/, { timeoutMs: 30_000, fromStart: true });
      return guest;
    },
    pids: (program) => {
      const procs = `/sys/fs/cgroup/memory/patchbay/${name}/cgroup.procs`;
      const unified = `/sys/fs/cgroup/patchbay/${name}/cgroup.procs`;
      return readFileSync(existsSync(procs) ? procs : unified, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .filter((line) => readFileSync(`/proc/${line}/comm`, "utf8").startsWith(program))
        .map(Number);
    },
    exitCode: async (withinMs) =>
      Number(
        await eventually(() => existsSync(join(directory, "exit")) && read("exit"), { withinMs }),
      ),
    remove: async () => {
      for (const guest of consoles) guest.close();
      await run(join(libexec, "pod-cgroup"), ["remove", name]);
      await run("ip", ["netns", "del", name]);
      rmSync(directory, { recursive: true });
    },
  };
  await eventually(async () => existsSync(socket) && (await virsh("version")), {
    withinMs: 30_000,
  });
  return pod;
}
