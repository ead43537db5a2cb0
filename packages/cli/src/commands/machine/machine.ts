// SPDX-License-Identifier: Apache-2.0
// patchbay up, down, restore and apiserver, for the standalone machine.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { hasFlag, textOption, type Input, argumentAt, numberOption } from "../../input.ts";
import { printResult } from "../../print/output.ts";

const TEXT_SETTINGS = ["apiAddress", "nodeName", "podSubnet", "serviceSubnet", "bridge"] as const;

async function runUp(context: Context, input: Input): Promise<void> {
  const dataDir = resolve(context.global.dataDir);
  const { up: bringUp } = await import("@patchbay/supervisor");
  const { apiPort, dataplaneGroup } = input.options;
  const settings = TEXT_SETTINGS.flatMap((name) => {
    const text = textOption(input, name);
    return text === undefined ? [] : [[name, text] as const];
  });
  await bringUp({
    dataDir,
    installService: hasFlag(input, "installService"),
    ...(typeof apiPort === "number" && { apiPort }),
    ...(typeof dataplaneGroup === "number" && { dataplaneGroup }),
    ...Object.fromEntries(settings),
  });
  const kubeconfig = resolve(dataDir, "kubeconfig");
  await printResult(context, {
    table: () => `ready; use it with: export KUBECONFIG=${kubeconfig}\n`,
    data: { dataDir, kubeconfig },
    names: [dataDir],
  });
}

export const up: Command = {
  name: "up",
  args: [],
  summary: "Start everything on this machine; returns when it is ready",
  flags: [
    {
      flags: "--api-port <port>",
      description: "TCP port of the API server (default: 6443)",
      kind: "port",
    },
    {
      flags: "--api-address <ip>",
      description: "address of this machine at which pods reach the API server (default: none)",
    },
    {
      flags: "--node-name <name>",
      description: "name of this machine's node (default: its host name)",
    },
    {
      flags: "--pod-subnet <cidr>",
      description: "network of the pods, a /24 (default: a free one)",
    },
    {
      flags: "--service-subnet <cidr>",
      description: "network of Service addresses, a /16 (default: a free one)",
    },
    {
      flags: "--bridge <name>",
      description: "bridge of the pods on this machine (default: patchbay0)",
    },
    {
      flags: "--dataplane-group <gid>",
      description:
        "group ID of a vhost-user dataplane that does not run as root (default: 0, root)",
      kind: "group",
    },
    { flags: "--install-service", description: "also start the machine at boot, by systemd" },
  ],
  run: runUp,
};

async function runDown(context: Context, input: Input): Promise<void> {
  const dataDir = resolve(context.global.dataDir);
  const purge = hasFlag(input, "purge");
  const { down: takeDown } = await import("@patchbay/supervisor");
  await takeDown({ dataDir, purge });
  await printResult(context, {
    table: () =>
      purge ? `stopped; ${dataDir} is deleted\n` : `stopped; data is kept in ${dataDir}\n`,
    data: { dataDir, purged: purge },
    names: [dataDir],
  });
}

export const down: Command = {
  name: "down",
  args: [],
  summary: "Shut down the guests and stop everything on this machine; data is kept",
  flags: [{ flags: "--purge", description: "delete the data directory too" }],
  run: runDown,
};

async function runRestore(context: Context, input: Input): Promise<void> {
  const standalone = await import("@patchbay/supervisor");
  const file = resolve(argumentAt(input, 0));
  const dataDir = resolve(context.global.dataDir);
  const { objects, revision } = await standalone.restore({ dataDir, file });
  await printResult(context, {
    table: () =>
      `${String(objects)} objects restored; revisions continue from ${String(revision)}\n`,
    data: { file, objects, revision },
    names: [],
  });
}

export const restore: Command = {
  name: "restore",
  args: ["<file>"],
  values: ["files"],
  summary: "Replace all objects of a stopped machine with those of a backup",
  flags: [],
  run: runRestore,
};

const DEFAULT_PORT = 6443;

async function runApiserver(context: Context, input: Input): Promise<void> {
  const { runApiServer } = await import("@patchbay/supervisor");
  await runApiServer({
    dataDir: resolve(context.global.dataDir),
    port: numberOption(input, "port", DEFAULT_PORT),
    signal: context.signal,
  });
}

export const apiserver: Command = {
  name: "apiserver",
  args: [],
  summary: "Run only the API server, in the foreground, over HTTPS on the loopback address",
  flags: [
    {
      flags: "--port <port>",
      description: "TCP port; 0 chooses a free one",
      kind: "port",
      fallback: String(DEFAULT_PORT),
    },
  ],
  run: runApiserver,
};
