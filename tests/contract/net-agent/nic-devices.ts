// SPDX-License-Identifier: Apache-2.0
// Host NICs as devices of a resource, with their names as IDs: the plugin host-device supports only PCI devices, which
// test machines lack, but moves named NICs.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { CniNode } from "../cni/node.ts";

export const RESOURCE = "vendor.io/nic";
export const PLUGIN = "nic-device";

/** A plugin's input. */
export interface GivenConfig {
  readonly deviceID?: string;
  readonly pciBusID?: string;
  readonly runtimeConfig?: Readonly<Record<string, string>>;
}

/** Records its input and its device file, and calls Debian's host-device. */
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

export class NicDevices {
  readonly #node: CniNode;

  constructor(node: CniNode) {
    this.#node = node;
    node.addPlugin(PLUGIN, `exec ${process.execPath} -e '${scriptOf(node.directory)}'`);
  }

  /** Creates host NICs; returns their sorted names. */
  make(count: number): readonly string[] {
    return Array.from({ length: count }, () => this.#node.addParent()).toSorted();
  }

  /** The input of ADD or DEL of a NIC in a pod. */
  given(command: string, nic: string): GivenConfig {
    const path = join(this.#node.directory, `${command}-${nic}.json`);
    return JSON.parse(readFileSync(path, "utf8")) as GivenConfig;
  }

  /** Which of the names exist on the host. */
  onHost(names: readonly string[]): readonly string[] {
    const links = readdirSync("/sys/class/net");
    return names.filter((name) => links.includes(name));
  }

  /** Files that describe a plugin's device. */
  infoFiles(directory: string): readonly string[] {
    return existsSync(`${directory}/cni`) ? readdirSync(`${directory}/cni`) : [];
  }
}
