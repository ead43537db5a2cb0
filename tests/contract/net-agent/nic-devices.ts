// SPDX-License-Identifier: Apache-2.0
// NICs of the host as devices of a resource, whose IDs are their names: the plugin host-device finds a device on the PCI bus
// only, which test machines do not have, but moves what is named.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { CniNode } from "../cni/node.ts";

export const RESOURCE = "vendor.io/nic";
export const PLUGIN = "nic-device";

/** What a plugin was given. */
export interface GivenConfig {
  readonly deviceID?: string;
  readonly pciBusID?: string;
  readonly runtimeConfig?: Readonly<Record<string, string>>;
}

/** Keeps what it was given and what it found in the file of its device, and has Debian's host-device do the work. */
function scriptOf(directory: string): string {
  return `
const { readFileSync, writeFileSync } = require("node:fs");
const { spawnSync } = require("node:child_process");
const text = readFileSync(0, "utf8");
const { CNI_COMMAND: command, CNI_IFNAME: nic } = process.env;
const { deviceID, pciBusID, runtimeConfig, ...config } = text === "" ? {} : JSON.parse(text);
if (nic !== undefined) writeFileSync("${directory}/" + command + "-" + nic + ".json", text);
const input = JSON.stringify({ ...config, type: "host-device", device: deviceID });
const { stdout, status } = spawnSync("/usr/lib/cni/host-device", { input });
process.stdout.write(stdout);
process.exitCode = status;`;
}

/** The plugin on the node. */
export class NicDevices {
  readonly #node: CniNode;

  constructor(node: CniNode) {
    this.#node = node;
    node.addPlugin(PLUGIN, `exec ${process.execPath} -e '${scriptOf(node.directory)}'`);
  }

  /** Makes NICs of the host; their names, sorted. */
  make(count: number): readonly string[] {
    return Array.from({ length: count }, () => this.#node.addParent()).toSorted();
  }

  /** What ADD or DEL of a NIC in a pod was given. */
  given(command: string, nic: string): GivenConfig {
    const path = join(this.#node.directory, `${command}-${nic}.json`);
    return JSON.parse(readFileSync(path, "utf8")) as GivenConfig; // by net-agent
  }

  /** Which of the names the host has now. */
  onHost(names: readonly string[]): readonly string[] {
    const links = readdirSync("/sys/class/net");
    return names.filter((name) => links.includes(name));
  }

  /** Files that plugins are given to tell of their device. */
  infoFiles(directory: string): readonly string[] {
    return existsSync(`${directory}/cni`) ? readdirSync(`${directory}/cni`) : [];
  }
}
