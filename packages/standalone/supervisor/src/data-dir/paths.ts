// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";

export interface Paths {
  readonly dataDir: string;
  /** Marks the directory as the machine's, and contains the settings of the first start. */
  readonly settings: string;
  readonly kubeconfig: string;
  readonly pki: string;
  /** Certificates of the migration relay. */
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
  readonly logs: string;
  readonly run: string;
  readonly lock: string;
  readonly state: string;
}

/** `dataDir` must be absolute. */
export function buildPaths(dataDir: string): Paths {
  const below = (...parts: readonly string[]): string => join(dataDir, ...parts);
  return {
    dataDir,
    settings: below("standalone.json"),
    kubeconfig: below("kubeconfig"),
    pki: below("pki"),
    relayPki: below("pki", "relay"),
    kubeconfigs: below("kubeconfigs"),
    storeDir: below("apiserver"),
    store: below("apiserver", "store.sqlite"),
    pods: below("pods"),
    claims: below("claims"),
    podLogs: below("pod-logs"),
    netAgent: below("net-agent"),
    nodeRuntime: below("node-runtime"),
    virtHandler: below("virt-handler"),
    containerd: below("containerd"),
    cniConf: below("cni", "net.d"),
    cniLeases: below("cni", "leases"),
    logs: below("logs"),
    run: below("run"),
    lock: below("run", "supervisor.lock"),
    state: below("run", "supervisor.json"),
  };
}

export function buildHealthSocketPath({ run }: Paths, component: string): string {
  return join(run, `${component}.sock`);
}

/** Keys, objects and logs are readable by root only. */
const PRIVATE = 0o700;
const PUBLIC = 0o755;

/** In the order of creation. */
export function listDirectories(paths: Paths): readonly (readonly [path: string, mode: number])[] {
  return [
    [paths.dataDir, PUBLIC],
    [paths.pki, PRIVATE],
    [paths.relayPki, PRIVATE],
    [paths.kubeconfigs, PRIVATE],
    [paths.storeDir, PRIVATE],
    [paths.pods, PUBLIC],
    [paths.claims, PRIVATE],
    [paths.podLogs, PRIVATE],
    [paths.netAgent, PRIVATE],
    [paths.virtHandler, PRIVATE],
    [paths.cniConf, PRIVATE],
    [paths.cniLeases, PRIVATE],
    [paths.logs, PRIVATE],
    [paths.run, PRIVATE],
  ];
}
