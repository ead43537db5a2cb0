// SPDX-License-Identifier: Apache-2.0
// A session libvirtd as in a launcher: user 107, no capability, its own mount, pid and network namespaces.
import { spawn, type ChildProcess } from "node:child_process";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chownSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { connectUnixSocket } from "@patchbay/os";
import { eventually } from "@patchbay/support";

const run = promisify(execFile);

export const LAUNCHER = { uid: 107, gid: 107 };

/** Mount point of the launcher's directory in a daemon's namespace, the same for every daemon. */
export const LAUNCHER_MOUNT = "/mnt";

/** Taps in the namespace: `tapc1` to `tapc3`. */
const TAPS = [1, 2, 3];

// The socket's path may be too long for a socket address, so a short one is mounted. The daemon resolves its clients'
// user, so that user needs a name, and the daemon must not be PID 1. Other suites' mounts are unmounted: under a
// private root mount "slave" has no effect, and their loop devices would stay busy as long as this namespace exists.
const SCRIPT = `
awk -v below="$4/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | tac | while read -r at; do umount --lazy "$at" || ! mountpoint -q "$at"; done
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/group" /etc/group
mount --bind "$3" "$1/run"
[ -z "$5" ] || mount --bind "$5" ${LAUNCHER_MOUNT}
mknod -m 666 "$1/tun" c 10 200
mount --bind "$1/tun" /dev/net/tun
for tap in ${TAPS.map((tap) => `tapc${String(tap)}`).join(" ")}; do ip tuntap add "$tap" mode tap user ${String(LAUNCHER.uid)}; done
while :; do
  setpriv --reuid ${String(LAUNCHER.uid)} --regid ${String(LAUNCHER.gid)} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \\
    env -i PATH="$PATH" HOME="$1/home" XDG_RUNTIME_DIR="$1/run" XDG_CONFIG_HOME="$1/config" XDG_CACHE_HOME="$2" libvirtd &
  wait
  [ "$6" = again ] || exit
done
`;

export interface SessionDaemon {
  readonly socketPath: string;
  /** The running daemon's pid in this namespace; throws if none runs. */
  readonly pid: number;
  /** Inode of its network namespace, decimal text. */
  readonly netnsInode: string;
  virsh(...args: readonly string[]): Promise<string>;
  /** Kills its guest's process. */
  killGuest(): void;
  /** Kills the daemon and its guests, and waits for their end. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

export interface SessionOptions {
  /** Path of its socket: `libvirt/libvirt-sock` below. Unset: its own directory. */
  readonly runDirectory?: string;
  /** The launcher's directory, at {@link LAUNCHER_MOUNT}. Unset: none. */
  readonly launcherDirectory?: string;
  /** Whether a dead daemon restarts, as in a launcher: its guest stays. */
  readonly startsAgain?: boolean;
  /** Cache of QEMU's capabilities. */
  readonly cacheDirectory: string;
}

/** A directory that the launchers' user owns. */
export function makeOwnDirectory(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o755 });
  chownSync(path, LAUNCHER.uid, LAUNCHER.gid);
  return path;
}

export async function startSessionDaemon(options: SessionOptions): Promise<SessionDaemon> {
  const base = mkdtempSync(join(tmpdir(), "session-libvirt-"));
  chownSync(base, LAUNCHER.uid, LAUNCHER.gid);
  for (const name of ["home", "run", "config"]) makeOwnDirectory(join(base, name));
  const id = `${String(LAUNCHER.uid)}:${String(LAUNCHER.gid)}`;
  const passwd = readFileSync("/etc/passwd", "utf8");
  writeFileSync(join(base, "passwd"), `${passwd}launcher:x:${id}::/:/usr/sbin/nologin\n`);
  const group = readFileSync("/etc/group", "utf8");
  writeFileSync(join(base, "group"), `${group}launcher:x:${String(LAUNCHER.gid)}:\n`);
  // libvirt migrates only between different hosts, and by default each daemon has the machine's identity.
  makeOwnDirectory(join(base, "config/libvirt"));
  writeFileSync(join(base, "config/libvirt/libvirtd.conf"), `host_uuid = "${randomUUID()}"\n`);
  const runDirectory = options.runDirectory ?? join(base, "run");
  const text = join(base, "words");
  const output = openSync(text, "w");
  const child = spawn("unshare", unshareArguments(base, runDirectory, options), {
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  try {
    return await waitForDaemon(child, base, join(runDirectory, "libvirt/libvirt-sock"));
  } catch (cause) {
    await kill(child);
    const error = new Error(`no daemon came up: ${readFileSync(text, "utf8")}`, { cause });
    rmSync(base, { recursive: true, force: true });
    throw error;
  }
}

function unshareArguments(base: string, runDirectory: string, options: SessionOptions): string[] {
  const flags = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const shell = ["sh", "-eu", "-c", SCRIPT, "session", base, options.cacheDirectory];
  const { launcherDirectory = "", startsAgain = false } = options;
  const places = [runDirectory, tmpdir(), launcherDirectory];
  return [...flags, "--propagation", "slave", ...shell, ...places, startsAgain ? "again" : ""];
}

async function waitForDaemon(
  child: ChildProcess,
  base: string,
  socketPath: string,
): Promise<SessionDaemon> {
  // The socket file exists a little before the server listens.
  const place = { directory: dirname(socketPath), path: basename(socketPath) };
  const socket = await eventually(() => connectUnixSocket(place), { withinMs: 50_000 });
  socket.destroy();
  const [init] = childrenOf(child.pid ?? 0);
  const findPid = (): number => {
    const found = childrenOf(init ?? 0).find((pid) => commandOf(pid) === "libvirtd");
    if (found === undefined) throw new Error("no daemon runs");
    return found;
  };
  const uri = `qemu+unix:///session?socket=${socketPath}`;
  return {
    socketPath,
    get pid() {
      return findPid();
    },
    netnsInode: statSync(`/proc/${String(findPid())}/ns/net`, { bigint: true }).ino.toString(),
    virsh: async (...args) =>
      (await run("virsh", ["-c", uri, ...args], { timeout: 120_000 })).stdout,
    killGuest: () => {
      process.kill(guestOf(findPid()), "SIGKILL");
    },
    stop: () => kill(child),
    close: async () => {
      await kill(child);
      rmSync(base, { recursive: true, force: true });
    },
  };
}

function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${String(pid)}/task/${String(pid)}/children`, "utf8");
  return children.split(" ").filter(Boolean).map(Number);
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${String(pid)}/comm`, "utf8").trim();
}

function pidNamespaceOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${String(pid)}/ns/pid`);
  } catch {
    return "";
  }
}

/** The QEMU in the daemon's pid namespace. */
function guestOf(daemon: number): number {
  const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
  const siblings = pids.filter((pid) => pidNamespaceOf(pid) === pidNamespaceOf(daemon));
  const guest = siblings.find((pid) => commandOf(pid).startsWith("qemu-system"));
  if (guest === undefined) throw new Error("the daemon has no guest");
  return guest;
}

/** Ends the pid namespace with its first process. */
async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const [init] = childrenOf(child.pid ?? 0);
  if (init === undefined) child.kill("SIGKILL");
  else process.kill(init, "SIGKILL");
  await ended;
}

/** An emulated domain with two free ports, no NIC and no boot device: its guest completes no unplug by itself. */
export function qemuDomainXml(name: string): string {
  const port = (index: number): string =>
    `<controller type='pci' index='${String(index)}' model='pcie-root-port'/>`;
  return `<domain type='qemu'><name>${name}</name><memory unit='MiB'>32</memory><vcpu>1</vcpu>
    <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
    <devices><controller type='usb' index='0' model='none'/><controller type='pci' index='0' model='pcie-root'/>
    ${port(1)}${port(2)}<memballoon model='none'/></devices></domain>`;
}

export function qemuNicXml(alias: string, number: number, link?: "down"): string {
  return `<interface type='ethernet'><mac address='02:00:00:00:00:0${String(number)}'/>
    <target dev='tapc${String(number)}' managed='no'/><model type='virtio-non-transitional'/>
    ${link === undefined ? "" : "<link state='down'/>"}<rom enabled='no'/><alias name='${alias}'/></interface>`;
}

/** The same with a NIC, and with that file's content in its memory, which takes long to send. */
export function heavyDomainXml(name: string, ballast: string, tap: 1 | 2): string {
  const loader = `loader,file=${ballast},addr=0x1000000,force-raw=on`;
  const argument = `<qemu:commandline><qemu:arg value='-device'/><qemu:arg value='${loader}'/></qemu:commandline>`;
  return qemuDomainXml(name)
    .replace("<domain ", "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ")
    .replace("<memory unit='MiB'>32<", "<memory unit='MiB'>48<")
    .replace("</devices>", `${qemuNicXml("ua-a", tap)}</devices>`)
    .replace("</domain>", `${argument}</domain>`);
}
