// SPDX-License-Identifier: Apache-2.0
// Plugins, links and kernel features of the node, for checks of definitions.
import type { Files, Link } from "@patchbay/core/interfaces";

export interface NodeView {
  readonly pluginPath: string;
  hasPlugin(name: string): Promise<boolean>;
  listLinkKinds(): Promise<ReadonlyMap<string, string>>;
  /** Returns whether bridges can filter VLANs. Undefined if the node has neither a bridge nor a readable kernel configuration. */
  supportsVlanFiltering(): Promise<boolean | undefined>;
  /** Returns the directory in which plugin host-local stores the network's leases. */
  buildLeaseDirectory(directory: string, networkName: string): string;
}

export interface NodeViewDeps {
  readonly files: Pick<Files, "exists" | "list" | "readText">;
  /** The host's root directory without a trailing slash, for example `/proc/1/root`. Empty if this process runs on the host. */
  readonly hostRoot: string;
  readonly binDirs: readonly string[];
  readonly listHostLinks: () => Promise<readonly Link[]>;
}

const KERNEL_RELEASE_FILE = "/proc/sys/kernel/osrelease";
const VLAN_KERNEL_OPTION = "CONFIG_BRIDGE_VLAN_FILTERING=y";

class HostNodeView implements NodeView {
  readonly #deps: NodeViewDeps;
  readonly pluginPath: string;
  /** Cached result of `supportsVlanFiltering`, which does not change while the kernel runs. */
  #canFilterVlans: boolean | undefined;

  constructor(deps: NodeViewDeps) {
    this.#deps = deps;
    this.pluginPath = deps.binDirs.join(":");
  }

  async hasPlugin(name: string): Promise<boolean> {
    // Rejects paths, so that a definition's author cannot find out which files exist on the node.
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

  buildLeaseDirectory(directory: string, networkName: string): string {
    return `${this.#deps.hostRoot}${directory}/${networkName}`;
  }

  /** Returns whether bridges can filter VLANs. If so, each has a file `vlan_filtering` (br_sysfs_br.c). Undefined without bridges. */
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
