// SPDX-License-Identifier: Apache-2.0
// A user's view of a standalone machine: its command line, kubectl, and guest consoles.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { names, type VirtualMachine, type VirtualMachineInstance } from "@patchbay/api";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import { ApiReader } from "./api-reader.ts";
import { pathOf, type ObjectOf, type ShortKind, type StoryEvent } from "./collections.ts";
import { creationOf } from "./apply.ts";
import { eventually } from "../eventually.ts";
import { openGuestConsole, type GuestConsole } from "../guest-console.ts";

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface MachineAddress {
  /** The checkout of the executables. */
  readonly root: string;
  readonly dataDir: string;
}

const OF_KUBEVIRT = "/apis/kubevirt.io/v1/namespaces/default";
const PODS = "/api/v1/namespaces/default/pods";

const COMMAND_TIMEOUT_MS = 180_000;

/** Limit of a boot: about 5 s under software emulation, more on a busy machine and with two at once. */
const BOOT_TIMEOUT_MS = 120_000;

/** Interval of checks that a booting guest still has its launcher. */
const LAUNCHER_LOOK_MS = 1_000;

export class Machine {
  readonly dataDir: string;
  readonly #root: string;
  /** Data directories of its nodes, its own first. */
  readonly #nodeDirs: string[];
  readonly #consoles = new Map<string, GuestConsole>();
  readonly #api: ApiReader;

  constructor(address: MachineAddress) {
    this.dataDir = address.dataDir;
    this.#nodeDirs = [address.dataDir];
    this.#api = new ApiReader(this.#kubeconfig);
    this.#root = address.root;
  }

  get #kubeconfig(): string {
    return join(this.dataDir, "kubeconfig");
  }

  /** Runs a program; `input` is its standard input. Does not throw. */
  try(argv: readonly [string, ...string[]], input = ""): CommandResult {
    const [program, ...args] = argv;
    const bin = join(this.#root, "node_modules/.bin");
    const result = spawnSync(program, args, {
      input,
      encoding: "utf8",
      timeout: COMMAND_TIMEOUT_MS,
      env: {
        ...process.env,
        PATH: [bin, process.env["PATH"] ?? ""].join(delimiter),
        KUBECONFIG: this.#kubeconfig,
      },
    });
    return { code: result.status ?? 1, stdout: result.stdout, stderr: result.stderr };
  }

  #run(argv: readonly [string, ...string[]], input?: string): string {
    const { code, stdout, stderr } = this.try(argv, input);
    if (code !== 0)
      throw new Error(`${argv.join(" ")}: exit code ${String(code)}: ${stderr}${stdout}`);
    return stdout;
  }

  /** kubectl against this machine; throws when it fails. */
  kubectl(...args: readonly string[]): string {
    return this.#run(["kubectl", ...args]);
  }

  /** patchbay against this machine; throws when it fails. */
  patchbay(...args: readonly string[]): string {
    return this.#run(["patchbay", "--data-dir", this.dataDir, ...args]);
  }

  /** Creates or updates objects like `kubectl apply`, whose process takes a fifth of a second of processor time. */
  apply(...objects: readonly unknown[]): void {
    // Tests' manifests.
    for (const object of objects as readonly KubeObject[]) {
      const { path, body } = creationOf(object, (of) => this.read(of));
      if (this.#api.create(path, body)) continue;
      this.#run(["kubectl", "apply", "-f", "-"], JSON.stringify(object));
    }
  }

  put(path: string, body: unknown): CommandResult {
    return this.try(["kubectl", "replace", "--raw", path, "-f", "-"], JSON.stringify(body));
  }

  /** The same without a program if kubectl's output does not matter; throws when it is rejected. */
  request(path: string, body: unknown): void {
    this.#api.put(path, body);
  }

  /** Patches an object: JSON Patch for a list of operations, otherwise JSON Merge Patch. Throws when it is rejected. */
  patch(kind: ShortKind, name: string, change: object): void {
    this.#api.patch(pathOf(kind, name), change);
  }

  /** Deletes objects and waits for their end, like `kubectl delete`. Throws when one does not exist. */
  delete(kind: ShortKind, ...objects: readonly string[]): void {
    const missing = this.#delete(kind, objects);
    if (missing.length > 0) throw new Error(`no ${kind} ${missing.join(", ")}`);
  }

  /** The same, ignoring missing ones. */
  deleteIfPresent(kind: ShortKind, ...objects: readonly string[]): void {
    this.#delete(kind, objects);
  }

  /** Names of missing objects. */
  #delete(kind: ShortKind, objects: readonly string[]): readonly string[] {
    const before = objects.map((name) => ({
      name,
      path: pathOf(kind, name),
      uid: this.#uidOf(kind, name),
    }));
    const missing = before.filter(({ path }) => !this.#api.delete(path));
    for (const { path, uid } of before) {
      if (uid !== undefined) this.#api.waitUntilGone(path, uid, COMMAND_TIMEOUT_MS);
    }
    return missing.map(({ name }) => name);
  }

  #uidOf(kind: ShortKind, name: string): string | undefined {
    return (this.read(pathOf(kind, name)) as KubeObject | undefined)?.metadata.uid;
  }

  /** An object, undefined when it does not exist. */
  find<K extends ShortKind>(kind: K, name: string): ObjectOf<K> | undefined {
    return this.read(pathOf(kind, name)) as ObjectOf<K> | undefined;
  }

  /** Every object of a kind, or those with a label such as `app=web`. */
  list<K extends ShortKind>(kind: K, label = ""): readonly ObjectOf<K>[] {
    const query = `?labelSelector=${encodeURIComponent(label)}`;
    const { items } = this.read(`${pathOf(kind)}${query}`) as {
      readonly items: readonly ObjectOf<K>[];
    };
    return items;
  }

  /** Events of the namespace `default`. */
  events(): readonly StoryEvent[] {
    return this.list("event");
  }

  /** Starts the deletion of an object, of a pod with `graceSeconds`, without waiting. A missing one is no error. */
  startDelete(kind: ShortKind, name: string, graceSeconds?: number): void {
    this.#api.delete(pathOf(kind, name), graceSeconds);
  }

  /** The object at a path of the API server, undefined if missing; cheap enough for polling. */
  read(path: string): unknown {
    return this.#api.read(path);
  }

  findVm(name: string): VirtualMachine | undefined {
    // The API server validated it.
    return this.read(`${OF_KUBEVIRT}/virtualmachines/${name}`) as VirtualMachine | undefined;
  }

  findVmi(name: string): VirtualMachineInstance | undefined {
    const path = `${OF_KUBEVIRT}/virtualmachineinstances/${name}`;
    return this.read(path) as VirtualMachineInstance | undefined;
  }

  /** The launcher pod of a VMI. */
  findPod(vmi: string): Pod | undefined {
    const uid = Object.keys(this.findVmi(vmi)?.status?.activePods ?? {})[0];
    const pods = this.read(PODS) as { items: readonly Pod[] };
    return pods.items.find(({ metadata }) => metadata.uid === uid);
  }

  /** The phase of a pod, undefined if it is missing. */
  findPodPhase(name: string): string | undefined {
    const pod = this.read(`${PODS}/${name}`) as Pod | undefined;
    return pod?.status?.phase;
  }

  /** The socket directory of a running VMI's launcher. */
  launcherDir(vmi: string): string {
    const uid = Object.keys(this.findVmi(vmi)?.status?.activePods ?? {})[0];
    if (uid === undefined) throw new Error(`VMI ${vmi} has no pod`);
    const volume = join("pods", uid, names.EMPTY_DIR_VOLUMES, names.LAUNCHER_VOLUME);
    const candidates = this.#nodeDirs.map((dataDir) => join(dataDir, volume));
    return candidates.find((path) => existsSync(path)) ?? join(this.dataDir, volume);
  }

  /** Also searches launchers on a node with that data directory. */
  joinedBy(dataDir: string): void {
    this.#nodeDirs.push(dataDir);
  }

  /** The console of a running VMI's guest; opened once. */
  console(vmi: string): GuestConsole {
    const directory = this.launcherDir(vmi);
    const known = this.#consoles.get(directory);
    if (known !== undefined) return known;
    const opened = openGuestConsole({
      socketPath: join(directory, names.CONSOLE_SOCKET),
      logPath: join(directory, names.CONSOLE_LOG),
    });
    this.#consoles.set(directory, opened);
    return opened;
  }

  /** The current console of a VMI's launcher; undefined while none runs a guest. */
  #findConsole(vmi: string): GuestConsole | undefined {
    return this.findVmi(vmi)?.status?.phase === "Running" ? this.console(vmi) : undefined;
  }

  /**
   * Waits until the guest of a VM or VMI is up, the newest one if a VM gets another launcher; `since` is the console's
   * position before a reboot.
   */
  async booted(vmi: string, since?: number, withinMs = BOOT_TIMEOUT_MS): Promise<void> {
    const before = this.#findConsole(vmi);
    const deadline = performance.now() + withinMs;
    for (;;) {
      const console = await eventually(() => this.#findConsole(vmi), { withinMs });
      const isBefore = since !== undefined && console === before;
      const position = isBefore ? { since } : { fromStart: true };
      try {
        await console.waitForLine(/guest ready/, { timeoutMs: LAUNCHER_LOOK_MS, ...position });
        return;
      } catch (error) {
        if (performance.now() > deadline) throw error;
      }
    }
  }

  /** Pid of a component, as recorded by the supervisor. */
  pidOf(component: string): number {
    const text = readFileSync(join(this.dataDir, "run", `${component}.json`), "utf8");
    const state: unknown = JSON.parse(text);
    if (
      typeof state === "object" &&
      state !== null &&
      "pid" in state &&
      typeof state.pid === "number"
    ) {
      return state.pid;
    }
    throw new Error(`${component} has no process id`);
  }

  /** Closes the consoles and the API connection. */
  close(): void {
    this.#api.close();
    for (const opened of this.#consoles.values()) opened.close();
  }
}
