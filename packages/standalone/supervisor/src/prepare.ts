// SPDX-License-Identifier: Apache-2.0
// Prepares the data directory before any component runs. Idempotent.
import { createServer } from "node:net";
import { claimServices } from "@patchbay/service-net/host";
import type { Clock } from "@patchbay/base";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import {
  ensureAdminKubeconfig,
  ensureComponentCertificates,
  ensureServerCertificates,
  type Certificates,
} from "./data-dir/certificates.ts";
import { writeDefaultNetwork } from "./host/cni.ts";
import { readHostNodeName } from "./config.ts";
import { listDirectories, type Paths } from "./data-dir/paths.ts";
import { readFields } from "./data-dir/json.ts";
import { checkDataFormat, rejectForeignFiles } from "./data-dir/ownership.ts";
import { listLinks } from "./host/bridges.ts";
import { listOtherMachines, registerMachine } from "./host/machines.ts";
import {
  storeSettings,
  type MachineFacts,
  type Settings,
  type WantedSettings,
} from "./settings/settings.ts";
import { listRoutes } from "./settings/subnet.ts";

export interface PrepareDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly runner: ProcessRunner;
  readonly paths: Paths;
}

export function buildServerUrl(port: number): string {
  return `https://127.0.0.1:${String(port)}`;
}

function isPortFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once("error", () => {
    resolve(false);
  });
  server.listen(port, "127.0.0.1", () => {
    server.close(() => {
      resolve(true);
    });
  });
  return promise;
}

export function createMachineFacts({
  files,
  runner,
  paths,
}: Pick<PrepareDeps, "files" | "runner" | "paths">): MachineFacts {
  return {
    listMachines: () => listOtherMachines(files, paths.dataDir),
    hostname: readHostNodeName(),
    isPortFree,
    listLinks: async () => (await listLinks(runner)).map(({ name }) => name),
    listRoutes: () => listRoutes(runner),
    claimServiceSubnet: (network) => claimServices(runner, network),
  };
}

export interface Prepared {
  readonly settings: Settings;
  readonly certificates: Certificates;
}

/** @throws AppError with STANDALONE_NOT_OURS when the data directory contains other files, and FORMAT_TOO_NEW */
export async function makeDirectories({
  files,
  paths,
}: Pick<PrepareDeps, "files" | "paths">): Promise<void> {
  await rejectForeignFiles(files, paths);
  checkDataFormat(await readFields(files, paths.settings), paths.dataDir);
  for (const [path, mode] of listDirectories(paths)) await files.ensureDirectory(path, mode);
}

export async function prepare(
  deps: PrepareDeps,
  requestedSettings: WantedSettings,
): Promise<Prepared> {
  const { files, paths } = deps;
  const settings = await storeSettings(deps, requestedSettings, createMachineFacts(deps));
  await registerMachine(files, paths.dataDir);
  const server = buildServerUrl(settings.apiPort);
  const certificates = await ensureServerCertificates(deps);
  await ensureAdminKubeconfig(deps, certificates.ca, server);
  await ensureComponentCertificates(deps, certificates.ca, { server, nodeName: settings.nodeName });
  await writeDefaultNetwork(files, paths, settings);
  return { settings, certificates };
}
