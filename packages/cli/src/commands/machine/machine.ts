// SPDX-License-Identifier: Apache-2.0
// patchbay up, down, upgrade, backup, restore and apiserver, for the standalone machine.
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
  const uninstallService = hasFlag(input, "uninstallService");
  const { down: takeDown } = await import("@patchbay/supervisor");
  await takeDown({ dataDir, purge, uninstallService });
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
  flags: [
    { flags: "--purge", description: "delete the data directory too, and the systemd unit" },
    { flags: "--uninstall-service", description: "no longer start the machine at boot" },
  ],
  run: runDown,
};

async function runUpgrade(context: Context): Promise<void> {
  const { upgrade: applyProgram } = await import("@patchbay/supervisor");
  const done = await applyProgram({ dataDir: resolve(context.global.dataDir) });
  const { from, to, restarted, podsBefore, podsKept } = done;
  const names = restarted.length === 0 ? "no service" : restarted.join(", ");
  await printResult(context, {
    table: () =>
      `version ${from === "" ? "unknown" : from} before, ${to} now; restarted: ${names}; ${String(podsKept)} of ${String(podsBefore)} pods still run\n`,
    data: done,
    names: restarted,
  });
}

export const upgrade: Command = {
  name: "upgrade",
  args: [],
  summary: "Restart the services of this machine with this program; pods and guests keep running",
  flags: [],
  run: runUpgrade,
};

async function runBackup(context: Context, input: Input): Promise<void> {
  const { backUp } = await import("@patchbay/supervisor");
  const file = resolve(argumentAt(input, 0));
  const done = await backUp({ dataDir: resolve(context.global.dataDir), file });
  const { objects, volumes, images } = done;
  const names = images === undefined ? ", and their names are unknown" : `: ${images.join(", ")}`;
  const left = images?.length === 0 ? "" : `; images are not in it${names}`;
  await printResult(context, {
    table: () => `${file}: ${String(objects)} objects, ${String(volumes.length)} volumes${left}\n`,
    data: { file, ...done },
    names: [file],
  });
}

export const backup: Command = {
  name: "backup",
  args: ["<file>"],
  values: ["files"],
  summary: "Write objects, keys, settings and claims of this machine into an archive",
  flags: [],
  run: runBackup,
};

async function runRestore(context: Context, input: Input): Promise<void> {
  const standalone = await import("@patchbay/supervisor");
  const file = resolve(argumentAt(input, 0));
  const dataDir = resolve(context.global.dataDir);
  const restored = await standalone.restore({ dataDir, file });
  const { objects, revision, volumes, images } = restored;
  const ofVolumes = volumes.length === 0 ? "" : `, and ${String(volumes.length)} volumes,`;
  const unknown = "the backup does not name its images; ";
  const missing = (images ?? ["NAME"])
    .map((image) => `add again: patchbay image add ${image} SOURCE\n`)
    .join("");
  await printResult(context, {
    table: () =>
      `${String(objects)} objects${ofVolumes} restored; revisions continue from ${String(revision)}\n${images === undefined ? unknown : ""}${missing}`,
    data: { file, ...restored },
    names: [],
  });
}

export const restore: Command = {
  name: "restore",
  args: ["<file>"],
  values: ["files"],
  summary: "Restore a machine from its backup, or replace all objects of a stopped machine",
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
