// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";

export interface Paths {
  readonly dataDir: string;
  /** File that contains the machine's settings and marks the directory as Patchbay's. */
  readonly settings: string;
  readonly kubeconfig: string;
  readonly pki: string;
  readonly relayPki: string;
  readonly kubeconfigs: string;
  readonly storeDir: string;
  readonly store: string;
  readonly pods: string;
  readonly claims: string;
  readonly podLogs: string;
  readonly netAgent: string;
  readonly nodeRuntime: string;
  readonly virtHandler: string;
  readonly containerd: string;
  readonly cniConf: string;
  readonly cniLeases: string;
  /** Socket on which containerd calls net-agent for pods that name their own default network. */
  readonly cniSocket: string;
  readonly logs: string;
  readonly run: string;
  readonly lock: string;
  readonly state: string;
  readonly backupRecord: string;
  readonly backupLock: string;
}

/** Builds the paths below `dataDir`, which must be absolute. */
export function buildPaths(dataDir: string): Paths {
  const pathOf = (...parts: readonly string[]): string => join(dataDir, ...parts);
  return {
    dataDir,
    settings: pathOf("standalone.json"),
    kubeconfig: pathOf("kubeconfig"),
    pki: pathOf("pki"),
    relayPki: pathOf("pki", "relay"),
    kubeconfigs: pathOf("kubeconfigs"),
    storeDir: pathOf("apiserver"),
    store: pathOf("apiserver", "store.sqlite"),
    pods: pathOf("pods"),
    claims: pathOf("claims"),
    podLogs: pathOf("pod-logs"),
    netAgent: pathOf("net-agent"),
    nodeRuntime: pathOf("node-runtime"),
    virtHandler: pathOf("virt-handler"),
    containerd: pathOf("containerd"),
    cniConf: pathOf("cni", "net.d"),
    cniLeases: pathOf("cni", "leases"),
    cniSocket: pathOf("run", "cni", "net-agent.sock"),
    logs: pathOf("logs"),
    run: pathOf("run"),
    lock: pathOf("run", "supervisor.lock"),
    state: pathOf("run", "supervisor.json"),
    backupRecord: pathOf("backup.json"),
    backupLock: pathOf("run", "backup.lock"),
  };
}

export function buildHealthSocketPath({ run }: Paths, component: string): string {
  return join(run, `${component}.sock`);
}

const PRIVATE_MODE = 0o700;
const PUBLIC_MODE = 0o755;

export function listDirectories(paths: Paths): readonly (readonly [path: string, mode: number])[] {
  return [
    [paths.dataDir, PUBLIC_MODE],
    [paths.pki, PRIVATE_MODE],
    [paths.relayPki, PRIVATE_MODE],
    [paths.kubeconfigs, PRIVATE_MODE],
    [paths.storeDir, PRIVATE_MODE],
    [paths.pods, PUBLIC_MODE],
    [paths.claims, PRIVATE_MODE],
    [paths.podLogs, PRIVATE_MODE],
    [paths.netAgent, PRIVATE_MODE],
    [paths.virtHandler, PRIVATE_MODE],
    [paths.cniConf, PRIVATE_MODE],
    [paths.cniLeases, PRIVATE_MODE],
    [paths.logs, PRIVATE_MODE],
    [paths.run, PRIVATE_MODE],
  ];
}
