// SPDX-License-Identifier: Apache-2.0
// Volumes that show objects, the pod itself and tokens: reading what they show, and publishing it.
import type { Pod, PodVolume } from "@patchbay/api";
import { printReference, tokenSourcesOf, volumeReferencesOf } from "./content/references.ts";
import { filesOf, type Shown } from "./content/volume-files.ts";
import type { VolumeDeps } from "./deps.ts";

/** Only root makes files there; the group of the files is the pod's. */
const ACCESS = { uid: 0, gid: 0, mode: 0o755 } as const;

/** Reads everything that the pod's volumes show; from now on its changes are told. */
export async function readShown(deps: VolumeDeps, pod: Pod): Promise<Shown> {
  const { objects, tokens, node } = deps;
  const { uid = "", namespace = "" } = pod.metadata;
  const references = volumeReferencesOf(pod);
  objects.hold(uid, namespace, references);
  const entries = new Map(
    await Promise.all(
      references.map(async (one) => {
        return [printReference(one), await objects.read(namespace, one)] as const;
      }),
    ),
  );
  const texts = new Map<unknown, string>();
  for (const source of tokenSourcesOf(pod)) texts.set(source, await tokens.find(pod, source));
  return {
    pod,
    node,
    entriesOf: (reference) => entries.get(printReference(reference)),
    tokenOf: (source) => texts.get(source),
  };
}

/**
 * Publishes what a volume shows; a ConfigMap's on the disk, else in memory, so that no secret is ever on the disk.
 * Answers whether anything changed.
 */
export async function showVolume(
  { disk }: VolumeDeps,
  shown: Shown,
  at: { readonly volume: PodVolume; readonly path: string },
): Promise<boolean> {
  const files = filesOf(at.volume, shown);
  if (at.volume.configMap !== undefined) await disk.makeDirectory(at.path, ACCESS);
  else await disk.mountMemory(at.path, { access: ACCESS });
  return disk.publish(at.path, files);
}
