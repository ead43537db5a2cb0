// SPDX-License-Identifier: Apache-2.0
// A dataplane: Open vSwitch with DPDK as in docs/examples/open-vswitch.md, without huge pages and beside the machine's
// own.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { linkSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../eventually.ts";
import { needProgram } from "../programs/need-program.ts";

/** Of Debian's openvswitch-switch-dpdk and openvswitch-switch. */
const [WITH_DPDK, WITHOUT] = [
  "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
  "/usr/lib/openvswitch-switch/ovs-vswitchd",
];
const SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema";
const BRIDGE = "ovs0";
const TIMEOUT = { withinMs: 60_000 };

/** A running one with a bridge. */
export class OpenVswitch {
  /** Beside the pods' sockets, because hard links need one file system. */
  readonly #directory = mkdtempSync("/run/patchbay-ovs-");
  readonly #children: ChildProcess[] = [];
  readonly #shared: string[] = [];

  /** Resolves when its DPDK has started; with a namespace's name it runs there without DPDK. */
  static async start(netns?: string): Promise<OpenVswitch> {
    for (const program of [WITH_DPDK, WITHOUT]) needProgram(program, "openvswitch-switch-dpdk");
    const found = new OpenVswitch();
    try {
      await found.#start(netns);
    } catch (error) {
      await found.stop();
      throw error;
    }
    return found;
  }

  /** Adds a port, creates its socket, and links it to that path too. */
  addPort(name: string, path: string): void {
    const type = ["--", "set", "Interface", name, "type=dpdkvhostuser"];
    this.#ask("add-port", BRIDGE, name, ...type);
    linkSync(join(this.#directory, name), path);
    this.#shared.push(path);
  }

  /** Adds a link of its namespace as a port with that VLAN. */
  addLink(name: string, vlan: number): void {
    this.#ask("add-port", BRIDGE, name, `tag=${String(vlan)}`);
  }

  /** Stops it and removes its sockets. */
  async stop(): Promise<void> {
    for (const path of this.#shared.splice(0)) rmSync(path, { force: true });
    for (const child of this.#children.toReversed()) {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, "exit");
        child.kill("SIGTERM");
        await ended;
      }
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }

  get #database(): string {
    return `unix:${this.#directory}/db.sock`;
  }

  #spawn(program: string, ...args: readonly string[]): ChildProcess {
    const name = String(this.#children.length);
    const control = join(this.#directory, `control-${name}`);
    const child = spawn(program, [...args, `--unixctl=${control}`], {
      stdio: "ignore",
      env: { ...process.env, OVS_RUNDIR: this.#directory },
    });
    this.#children.push(child);
    return child;
  }

  #ask(...words: readonly string[]): string {
    return execFileSync("ovs-vsctl", [`--db=${this.#database}`, "--timeout=60", ...words], {
      encoding: "utf8",
      stdio: "pipe",
    }).trim();
  }

  async #start(netns: string | undefined): Promise<void> {
    const file = join(this.#directory, "conf.db");
    execFileSync("ovsdb-tool", ["create", file, SCHEMA]);
    this.#spawn("ovsdb-server", file, `--remote=p${this.#database}`);
    await eventually(() => this.#isAnswered(), TIMEOUT);
    this.#ask("--no-wait", "init");
    if (netns === undefined) await this.#startDpdk();
    else this.#spawn("ip", "netns", "exec", netns, WITHOUT, this.#database);
    this.#ask("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev");
  }

  async #startDpdk(): Promise<void> {
    const settings = [
      "dpdk-init=true",
      "pmd-maxsleep=500", // microseconds of sleep when idle; otherwise it polls continuously
      "per-port-memory=true", // one buffer for all ports takes 0.7 GB by default
      `dpdk-extra="--no-huge --legacy-mem -m 512 --no-pci --no-telemetry --file-prefix=patchbay-ovs-${String(process.pid)}"`,
    ];
    const options = settings.map((setting) => `other_config:${setting}`);
    this.#ask("--no-wait", "set", "Open_vSwitch", ".", ...options);
    // Its bridge is also a link that outlives it: it is deleted with its own namespace.
    const child = this.#spawn("unshare", "--net", WITH_DPDK, this.#database);
    await eventually(() => {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error("Open vSwitch has ended");
      return this.#ask("get", "Open_vSwitch", ".", "dpdk_initialized") === "true";
    }, TIMEOUT);
  }

  #isAnswered(): boolean {
    try {
      this.#ask("--no-wait", "show");
      return true;
    } catch {
      return false;
    }
  }
}
