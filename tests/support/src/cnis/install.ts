// SPDX-License-Identifier: Apache-2.0
// Installs CNI plugins of tests on this machine, among them the one with other projects' behaviors.
import { chmodSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Directory of CNI plugins. Several tests can have plugins there at the same time. */
const BIN_DIR = "/opt/cni/bin";
/** Attempts to create a file in a directory that another test may remove at the same time. */
const ATTEMPTS_MAX = 10;

function isCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

/** Installs a plugin that `write` creates at the given path. The result removes the plugin. */
export function installPlugin(type: string, write: (path: string) => void): () => void {
  const path = join(BIN_DIR, type);
  for (let attempt = 1; ; attempt += 1) {
    try {
      mkdirSync(BIN_DIR, { recursive: true });
      write(path);
      break;
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !isCode(error, "ENOENT")) throw error;
    }
  }
  chmodSync(path, 0o755);
  return () => {
    rmSync(path, { force: true });
    removeEmptyDirectories();
  };
}

function removeEmptyDirectories(): void {
  try {
    for (const directory of [BIN_DIR, dirname(BIN_DIR)]) rmdirSync(directory);
  } catch (error) {
    if (!isCode(error, "ENOTEMPTY", "ENOENT")) throw error;
  }
}

/** See `behaviors/` for what each network does. */
type NetworkBehavior = "pins" | "chooses";

interface ThirdPartyCni {
  /** Type of the plugin in a network's configuration. */
  readonly type: string;
  readonly remove: () => void;
}

/** Program of the plugin, for an executable in a directory of plugins. */
export const THIRD_PARTY_PLUGIN = join(import.meta.dirname, "plugin.ts");

/** Installs the plugin until `remove` is called. */
export function installThirdPartyCni(): ThirdPartyCni {
  const type = `patchbay-third-party-${String(process.pid)}`;
  const remove = installPlugin(type, (path) => {
    writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${THIRD_PARTY_PLUGIN}'\n`);
  });
  return { type, remove };
}

interface ThirdPartyNetwork {
  readonly behavior: NetworkBehavior;
  /** Default: the behavior. */
  readonly name?: string;
  /** Bridge of the network alone. */
  readonly bridge: string;
  /** Subnet of 254 addresses with a gateway. Without a subnet, the network assigns no addresses. */
  readonly subnet?: string;
  readonly mtu?: number;
}

/** Returns the definition of a network. */
export function thirdPartyNetwork({ type }: ThirdPartyCni, network: ThirdPartyNetwork): unknown {
  const { behavior, name = behavior, subnet, ...settings } = network;
  const addresses = { isGateway: true, ipam: { type: "host-local", ranges: [[{ subnet }]] } };
  const plugin = { type, behavior, ...settings, ...(subnet !== undefined && addresses) };
  const config = { cniVersion: "1.0.0", name, plugins: [plugin] };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify(config) },
  };
}
