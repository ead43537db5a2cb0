// SPDX-License-Identifier: Apache-2.0
// Installs the plugin with other projects' behaviors on this machine.
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const BIN_DIR = "/opt/cni/bin";

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
  const createdDirectory = mkdirSync(BIN_DIR, { recursive: true });
  const type = `patchbay-third-party-${String(process.pid)}`;
  const path = join(BIN_DIR, type);
  writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${THIRD_PARTY_PLUGIN}'\n`);
  chmodSync(path, 0o755);
  const remove = (): void => {
    rmSync(createdDirectory ?? path, { recursive: true });
  };
  return { type, remove };
}

/** A network of 254 addresses with a gateway, on a bridge of its own. */
export function thirdPartyNetwork(
  { type }: ThirdPartyCni,
  network: { behavior: NetworkBehavior; bridge: string; subnet: string; mtu?: number },
): unknown {
  const { behavior, subnet, ...settings } = network;
  const ipam = { type: "host-local", ranges: [[{ subnet }]] };
  const plugin = { type, behavior, ...settings, isGateway: true, ipam };
  const config = { cniVersion: "1.0.0", name: behavior, plugins: [plugin] };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: behavior, namespace: "default" },
    spec: { config: JSON.stringify(config) },
  };
}
