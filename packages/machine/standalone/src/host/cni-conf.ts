// SPDX-License-Identifier: Apache-2.0
// The default network of the pods: a bridge on the host with addresses for everyone and a way out.
import { join } from "node:path";
import type { Files } from "@patchbay/core/ports";
import type { Paths } from "../data-dir/paths.ts";
import type { Settings } from "../settings/settings.ts";

const FILE = "10-patchbay.conflist";

/** The configuration. Source: CNI SPEC 1.0 section 1; plugins bridge and host-local. */
export function defaultNetworkOf(settings: Settings, leasesDir: string): object {
  return {
    cniVersion: "1.0.0",
    name: "patchbay",
    plugins: [
      {
        type: "bridge",
        bridge: settings.bridge,
        isGateway: true,
        ipMasq: true,
        ipam: {
          type: "host-local",
          dataDir: leasesDir,
          ranges: [[{ subnet: settings.podSubnet }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
    ],
  };
}

/** Writes the configuration, unless somebody has put one of their own beside or in its place. */
export async function keepDefaultNetwork(
  files: Files,
  paths: Paths,
  settings: Settings,
): Promise<void> {
  const others = (await files.list(paths.cniConf)).filter((name) => name !== FILE);
  if (others.length > 0) return;
  const file = join(paths.cniConf, FILE);
  const text = `${JSON.stringify(defaultNetworkOf(settings, paths.cniLeases), undefined, 2)}\n`;
  if (text !== (await files.readText(file))) await files.writeAtomic(file, text);
}
