// SPDX-License-Identifier: Apache-2.0
// A CNI plugin of version 1.1.0 without links: it writes a file for each attachment to the configured directory. While
// the file `down` exists, ADD fails.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Config {
  /** Unset at VERSION. */
  readonly dir?: string;
  readonly "cni.dev/valid-attachments"?: readonly {
    readonly containerID: string;
    readonly ifname: string;
  }[];
}

const SUFFIX = ".held";
const { CNI_COMMAND, CNI_CONTAINERID = "", CNI_IFNAME: nic = "", CNI_NETNS } = process.env;

function fileOf(containerId: string, ifname: string): string {
  return `${containerId}.${ifname}${SUFFIX}`;
}

function answer(value: object): void {
  process.stdout.write(JSON.stringify({ cniVersion: "1.1.0", ...value }));
}

function fail(code: number, msg: string): void {
  answer({ code, msg });
  process.exitCode = 1;
}

function collect({ dir = "", "cni.dev/valid-attachments": list = [] }: Config): void {
  const valid = list.map(({ containerID, ifname }) => fileOf(containerID, ifname));
  for (const name of readdirSync(dir)) {
    if (name.endsWith(SUFFIX) && !valid.includes(name)) rmSync(join(dir, name));
  }
}

const COMMANDS: Readonly<Record<string, (config: Config, file: string) => void>> = {
  VERSION: () => {
    answer({ supportedVersions: ["1.0.0", "1.1.0"] });
  },
  ADD: (_config, file) => {
    writeFileSync(file, "");
    answer({ interfaces: [{ name: nic, sandbox: CNI_NETNS }] });
  },
  DEL: (_config, file) => {
    rmSync(file, { force: true });
  },
  CHECK: (_config, file) => {
    if (!existsSync(file)) fail(100, `${nic} is not held`);
  },
  STATUS: ({ dir = "" }) => {
    if (existsSync(join(dir, "down"))) fail(50, "it is down");
  },
  GC: collect,
};

// The output of the runtime under test.
const config = JSON.parse(readFileSync(0, "utf8")) as Config;
const command = COMMANDS[CNI_COMMAND ?? ""];
if (command === undefined) fail(4, `unknown command ${String(CNI_COMMAND)}`);
else command(config, join(config.dir ?? "", fileOf(CNI_CONTAINERID, nic)));
