// SPDX-License-Identifier: Apache-2.0
// Manifest of the kubectl plugin. Source: Krew, "Developing Plugins: Writing Manifests".
import { stringify } from "yaml";

export interface Platform {
  readonly architecture: string;
  readonly uri: string;
  readonly sha256: string;
}

/** `program` is the path in the archives, and `folder` their only folder. */
export function renderKrewManifest(
  version: string,
  platforms: readonly Platform[],
  { folder, program }: { readonly folder: string; readonly program: string },
): string {
  return stringify(
    {
      apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
      kind: "Plugin",
      metadata: { name: "patchbay" },
      spec: {
        version: `v${version}`,
        shortDescription: "Plug network interfaces into running VMs",
        description:
          "Plugs network interfaces into running virtual machines, explains their state, and\ninstalls and examines Patchbay.\n",
        platforms: platforms.map(({ architecture, uri, sha256 }) => ({
          selector: { matchLabels: { os: "linux", arch: architecture } },
          uri,
          sha256,
          files: [{ from: `${folder}/*`, to: "." }],
          bin: program,
        })),
      },
    },
    { lineWidth: 100 },
  );
}
