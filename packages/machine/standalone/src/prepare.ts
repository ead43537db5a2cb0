// SPDX-License-Identifier: Apache-2.0
// What is on disk before anything runs; everything is made once and kept.
import { createServer } from "node:net";
import { claimServices } from "@patchbay/service-net/host";
import type { Clock, Files, ProcessRunner } from "@patchbay/core/ports";
import {
  keepAdminKubeconfig,
  keepComponentCertificates,
  keepServerCertificates,
  type Certificates,
} from "./data-dir/certificates.ts";
import { keepDefaultNetwork } from "./host/cni-conf.ts";
import { nodeNameOfHost } from "./config.ts";
import { directoriesOf, type Paths } from "./data-dir/paths.ts";
import { refuseOthers } from "./data-dir/ours.ts";
import { listLinks } from "./host/bridges.ts";
import {
  keepSettings,
  type MachineFacts,
  type Settings,
  type WantedSettings,
} from "./settings/settings.ts";
import { listRoutes } from "./settings/subnet.ts";

/** The data directory of one machine, and the host to ask for its networks. */
export interface PrepareDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly runner: ProcessRunner;
  readonly paths: Paths;
}

/** URL of the API server. */
export function serverUrlOf(port: number): string {
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

/** What this machine offers. */
export function machineFacts(runner: ProcessRunner): MachineFacts {
  return {
    hostname: nodeNameOfHost(),
    isPortFree,
    listLinks: async () => (await listLinks(runner)).map(({ name }) => name),
    listRoutes: () => listRoutes(runner),
    claimServiceSubnet: (network) => claimServices(runner, network),
  };
}

/** A machine that can be started. */
export interface Prepared {
  readonly settings: Settings;
  readonly certificates: Certificates;
}

/**
 * Makes the directories of a machine where nothing of anybody else's is.
 * @throws AppError with STANDALONE_NOT_OURS
 */
export async function makeDirectories({
  files,
  paths,
}: Pick<PrepareDeps, "files" | "paths">): Promise<void> {
  await refuseOthers(files, paths);
  for (const [path, mode] of directoriesOf(paths)) await files.ensureDirectory(path, mode);
}

/** Makes directories, settings, certificates, kubeconfigs and the default network. */
export async function prepare(deps: PrepareDeps, wanted: WantedSettings): Promise<Prepared> {
  const { files, runner, paths } = deps;
  const settings = await keepSettings(deps, wanted, machineFacts(runner));
  const server = serverUrlOf(settings.apiPort);
  const certificates = await keepServerCertificates(deps);
  await keepAdminKubeconfig(deps, certificates.ca, server);
  await keepComponentCertificates(deps, certificates.ca, { server, nodeName: settings.nodeName });
  await keepDefaultNetwork(files, paths, settings);
  return { settings, certificates };
}
