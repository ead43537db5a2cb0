// SPDX-License-Identifier: Apache-2.0
// Sandboxes, a bridge and leases on this machine for CNI plugins; all removed afterwards.
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NetworkConfigList, Sandbox } from "@patchbay/core/interfaces";
import { run } from "@patchbay/support";

let instances = 0;

function tryRun(program: string, ...args: readonly string[]): void {
  try {
    run(program, ...args);
  } catch {
    // Cleans up links that may be gone already.
  }
}

/** A link of `ip -j link`, as far as tests read it. */
interface JsonLink {
  readonly ifname: string;
  readonly address: string;
  readonly linkinfo?: { readonly info_kind?: string };
}

interface SandboxOwner {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

const SOME_POD: SandboxOwner = { uid: "uid-1", namespace: "default", name: "pod" };

/** Names are unique per instance, so that tests can follow each other closely. */
export class CniNode {
  readonly directory = mkdtempSync(join(tmpdir(), "patchbay-cni-"));
  readonly #prefix: string;
  readonly #sandboxes: string[] = [];
  #made = 0;
  readonly #links: string[] = [];

  /** `prefix`: of the names of sandboxes and links; at most 10 characters. */
  constructor(prefix?: string) {
    instances += 1;
    this.#prefix = prefix ?? `pbc${String(process.pid % 10_000)}x${String(instances)}`;
  }

  get bridge(): string {
    return `${this.#prefix}b`;
  }

  /** A name for a host link that a plugin will create; it is removed with the rest. */
  nameLink(suffix: string): string {
    const name = `${this.#prefix}${suffix}`;
    this.#links.push(name);
    return name;
  }

  get leaseDir(): string {
    return join(this.directory, "leases");
  }

  get binDir(): string {
    return join(this.directory, "bin");
  }

  addSandbox({ uid: podUid, ...pod }: SandboxOwner = SOME_POD): Sandbox {
    this.#made += 1; // ids are never reused
    const id = `${this.#prefix}-${String(this.#made)}`;
    run("ip", "netns", "add", id);
    this.#sandboxes.push(id);
    const netnsPath = `/run/netns/${id}`;
    return { id, podUid, pod, netnsPath, netnsInode: String(statSync(netnsPath).ino) };
  }

  dropSandbox({ id }: Sandbox): void {
    run("ip", "netns", "del", id);
    this.#sandboxes.splice(this.#sandboxes.indexOf(id), 1);
  }

  /** A host NIC as a parent for macvlans. */
  addParent(): string {
    const name = this.nameLink(`p${String(this.#links.length)}`);
    run("ip", "link", "add", name, "type", "veth", "peer", "name", `${name}x`);
    run("ip", "link", "set", name, "up");
    return name;
  }

  /** A shell script as a plugin. */
  addPlugin(name: string, script: string): void {
    run("mkdir", "-p", this.binDir);
    const path = join(this.binDir, name);
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, 0o755);
  }

  /** The plugin `keeper` of version 1.1.0: see keeper.ts. */
  addKeeper(): void {
    const script = join(import.meta.dirname, "keeper.ts");
    this.addPlugin("keeper", `exec ${process.execPath} ${script}`);
  }

  /** Bridge with addresses from `range`, for example `10.55.0.10-10.55.0.20`. */
  bridgePlugin(range?: {
    readonly from: string;
    readonly to: string;
  }): NetworkConfigList["plugins"][number] {
    const ends = range === undefined ? {} : { rangeStart: range.from, rangeEnd: range.to };
    return {
      type: "bridge",
      bridge: this.bridge,
      ipam: {
        type: "host-local",
        dataDir: this.leaseDir,
        ranges: [[{ subnet: "10.55.0.0/24", ...ends }]],
        routes: [{ dst: "0.0.0.0/0" }],
      },
    };
  }

  /** Bridge without addresses. */
  layer2Plugin(): NetworkConfigList["plugins"][number] {
    return { type: "bridge", bridge: this.bridge, capabilities: { mac: true } };
  }

  links({ id }: Sandbox): readonly JsonLink[] {
    const links = JSON.parse(run("ip", "-n", id, "-j", "-d", "link")) as readonly JsonLink[];
    return links.filter((link) => link.ifname !== "lo");
  }

  nics(sandbox: Sandbox): readonly string[] {
    return this.links(sandbox)
      .map((link) => link.ifname)
      .toSorted();
  }

  /** Leased addresses of a network, sorted. */
  leases(network: string): readonly string[] {
    const directory = join(this.leaseDir, network);
    if (!existsSync(directory)) return [];
    return readdirSync(directory)
      .filter((name) => /^\d/.test(name))
      .toSorted();
  }

  bridgePorts(): readonly string[] {
    const links = JSON.parse(run("ip", "-j", "link")) as readonly {
      ifname: string;
      master?: string;
    }[];
    return links.flatMap((link) => (link.master === this.bridge ? [link.ifname] : []));
  }

  close(): void {
    for (const id of this.#sandboxes.splice(0)) tryRun("ip", "netns", "del", id);
    for (const name of [...this.#links.splice(0), this.bridge]) tryRun("ip", "link", "del", name);
    rmSync(this.directory, { recursive: true, force: true });
  }
}
