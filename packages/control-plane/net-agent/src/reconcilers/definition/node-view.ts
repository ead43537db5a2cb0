// SPDX-License-Identifier: Apache-2.0
// What the node offers to definitions: plugins in the host's files, and the host's links.
import type { Files, Link } from "@patchbay/core/interfaces";

export interface NodeView {
  readonly pluginPath: string;
  hasPlugin(name: string): Promise<boolean>;
  listLinkKinds(): Promise<ReadonlyMap<string, string>>;
  /** Returns whether bridges support VLAN filtering; undefined if neither a bridge nor the kernel's configuration shows it. */
  supportsVlanFiltering(): Promise<boolean | undefined>;
  /** Where plugin host-local stores a network's leases. */
  leaseDirectory(directory: string, networkName: string): string;
}

export interface NodeViewDeps {
  readonly files: Pick<Files, "exists" | "list" | "readText">;
  /** The host's root directory without a trailing slash: empty, or for example `/proc/1/root`. */
  readonly hostRoot: string;
  readonly binDirs: readonly string[];
  readonly listHostLinks: () => Promise<readonly Link[]>;
}

const KERNEL_RELEASE_FILE = "/proc/sys/kernel/osrelease";
const VLAN_KERNEL_OPTION = "CONFIG_BRIDGE_VLAN_FILTERING=y";

class HostNodeView implements NodeView {
  readonly #deps: NodeViewDeps;
  readonly pluginPath: string;
  /** Result of `supportsVlanFiltering`, cached because a running kernel does not change. */
  #canFilterVlans: boolean | undefined;

  constructor(deps: NodeViewDeps) {
    this.#deps = deps;
    this.pluginPath = deps.binDirs.join(":");
  }

  async hasPlugin(name: string): Promise<boolean> {
    // A definition's author must not learn which other files exist.
    if (name === "." || name === ".." || /[/\0]/.test(name)) return false;
    const { files, hostRoot, binDirs } = this.#deps;
    for (const directory of binDirs) {
      if (await files.exists(`${hostRoot}${directory}/${name}`)) return true;
    }
    return false;
  }

  async listLinkKinds(): Promise<ReadonlyMap<string, string>> {
    const links = await this.#deps.listHostLinks();
    return new Map(links.map(({ name, kind }) => [name, kind]));
  }

  async supportsVlanFiltering(): Promise<boolean | undefined> {
    this.#canFilterVlans ??= (await this.#readBridge()) ?? (await this.#readConfiguration());
    return this.#canFilterVlans;
  }

  leaseDirectory(directory: string, networkName: string): string {
    return `${this.#deps.hostRoot}${directory}/${networkName}`;
  }

  /** Looks for the file `vlan_filtering` of a bridge, which exists if the kernel supports it. Source: linux/net/bridge/br_sysfs_br.c. */
  async #readBridge(): Promise<boolean | undefined> {
    const { files, hostRoot } = this.#deps;
    for (const [name, kind] of await this.listLinkKinds()) {
      const settings = `${hostRoot}/sys/class/net/${name}/bridge`;
      if (kind !== "bridge" || !(await files.exists(settings))) continue;
      return files.exists(`${settings}/vlan_filtering`);
    }
    return undefined;
  }

  async #readConfiguration(): Promise<boolean | undefined> {
    const { files, hostRoot } = this.#deps;
    const release = ((await files.readText(KERNEL_RELEASE_FILE)) ?? "").trim();
    const text = await files.readText(`${hostRoot}/boot/config-${release}`);
    return text?.split("\n").includes(VLAN_KERNEL_OPTION);
  }
}

export function createNodeView(deps: NodeViewDeps): NodeView {
  return new HostNodeView(deps);
}
